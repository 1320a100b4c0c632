"""Standard input, output and error, however the caller has left them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


def settle() -> None:
    """Make all three usable, for the length of the process.

    One that was closed (a daemon's, ``>&-``) reads nothing and writes nowhere: Python has None in
    its place. And what the encoding of a terminal does not know is written as an escape.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # Its number is free, and the first that is free is given: no socket gets it later.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        # A test may have put something else there.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not can_write_everything(stream.encoding):
            reconfigure(errors="backslashreplace")


def can_write_everything(encoding: str | None) -> bool:
    """Whether a stream of this encoding takes every text."""
    return encoding is None or encoding.lower().replace("-", "") in ("utf8", "utf8sig")


def drop_output() -> None:
    """Let what is still to be written to standard output go nowhere: its reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
