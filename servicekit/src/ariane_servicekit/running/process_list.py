"""What other users of the machine see of this process: its arguments, as ``ps`` shows them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

VALUE_OCTETS_MIN: Final = 8
"""A shorter value is not looked for: it may be a part of any word."""

_ARGUMENTS: Final = slice(45, 47)
_ENVIRONMENT: Final = slice(47, 49)
"""Where ``/proc/self/stat`` says where they begin and end, counted behind the name."""


def hide(
    *,
    flags: Collection[str] = (),
    variables: Collection[str] = (),
    values: Collection[str] = (),
) -> None:
    """Put asterisks over secrets in the arguments of this process, and in its environment.

    Both stay where the system has put them when the process began, and that is where ``ps`` and
    ``/proc`` read them from. A program that this one starts inherits the asterisks. Elsewhere than
    on Linux it does nothing.

    Args:
        flags: What follows these is secret, behind ``--flag=`` or as the next argument.
        variables: The values of these are secret.
        values: Secret wherever they stand, those of at least ``VALUE_OCTETS_MIN`` octets.
    """
    if sys.platform != "linux":
        return
    secret = [each for each in map(os.fsencode, values) if len(each) >= VALUE_OCTETS_MIN]
    flag_names, variable_names = set(map(os.fsencode, flags)), set(map(os.fsencode, variables))
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    before = b""
    for place, word in _words(fields[_ARGUMENTS]):
        name, _, value = word.partition(b"=")
        if before in flag_names:
            _cover(place, len(word))
        elif name in flag_names:
            _cover(place + len(word) - len(value), len(value))
        _cover_all(place, word, secret)
        before = word
    for place, word in _words(fields[_ENVIRONMENT]):
        name, _, value = word.partition(b"=")
        if name in variable_names:
            _cover(place + len(word) - len(value), len(value))
        _cover_all(place, word, secret)


def _words(bounds: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """The words between two addresses, each with its own."""
    place, end = map(int, bounds)
    # Without the permission to know where they are, both are 0.
    for word in ctypes.string_at(place, end - place).split(b"\0"):
        yield place, word
        place += len(word) + 1


def _cover_all(place: int, word: bytes, secret: list[bytes]) -> None:
    for each in secret:
        found = word.find(each)
        while found >= 0:
            _cover(place + found, len(each))
            found = word.find(each, found + 1)


def _cover(place: int, octets: int) -> None:
    ctypes.memset(place, ord("*"), octets)
