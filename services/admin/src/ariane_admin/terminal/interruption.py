"""Ctrl-C while a command is still loaded: it ends there and then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from ariane_admin.terminal.exits import ExitStatus

_IMPORTING: Final = "<frozen importlib"
"""How Python names the files of its import system."""


@contextmanager
def interruptible_imports() -> Iterator[None]:
    """End the process at once when Ctrl-C comes during an import.

    Python runs callbacks while it imports, drops the errors of these, also ``KeyboardInterrupt``,
    and goes on. Nothing that is left behind by an import has to be cleaned up. ``run_async`` sets
    the usual handler again, because asyncio cancels its task only in place of that one.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if usual:
            signal.signal(signal.SIGINT, _interrupted)
    except ValueError:  # Tests run commands in other threads, which have no signals.
        usual = False
    try:
        yield
    finally:
        if usual:
            as_usual()


def as_usual() -> None:
    """Set Python's handler again, if ours is set."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            os._exit(ExitStatus.INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
