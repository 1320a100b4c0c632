"""Making standard input, output and error usable in every state of the caller."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


def settle() -> None:
    """Make all three usable, for the length of the process.

    A closed stream (of a daemon, or ``>&-``), for which Python has None, then reads and writes
    nothing. Characters that a terminal's encoding lacks are written as escapes.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # The stream's descriptor is free, and open takes it: so no socket gets it later.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        # A test may have replaced it.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not can_write_everything(stream.encoding):
            reconfigure(errors="backslashreplace")


def can_write_everything(encoding: str | None) -> bool:
    """Whether a stream of this encoding can write every text."""
    return encoding is None or encoding.lower().replace("-", "") in ("utf8", "utf8sig")


def drop_output() -> None:
    """Discard further standard output: its reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
