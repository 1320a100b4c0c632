"""What other users of the machine see of this process: its arguments, as ``ps`` shows them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_ARGUMENTS: Final = slice(45, 47)
_ENVIRONMENT: Final = slice(47, 49)
"""Where ``/proc/self/stat`` says where they begin and end, counted behind the name."""


def hide(secrets: Iterable[str]) -> None:
    """Put asterisks over secrets in the arguments of this process, and in its environment.

    Both stay where the system has put them when the process began, and that is where ``ps`` and
    ``/proc`` read them from. A program that this one starts inherits the asterisks. Elsewhere than
    on Linux it does nothing.

    Args:
        secrets: Those that were given as whole arguments, behind ``--flag=``, or as variables.
    """
    hidden = [os.fsencode(each) for each in secrets if each]
    if not hidden or sys.platform != "linux":
        return
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    for begin, end in (map(int, fields[each]) for each in (_ARGUMENTS, _ENVIRONMENT)):
        place = begin
        # Without the permission to know where they are, both are 0.
        for entry in ctypes.string_at(begin, end - begin).split(b"\0"):
            for secret in hidden:
                if entry == secret or entry.endswith(b"=" + secret):
                    at = place + len(entry) - len(secret)
                    ctypes.memset(at, ord("*"), len(secret))
            place += len(entry) + 1
