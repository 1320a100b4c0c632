"""What the client warns of while a command runs on: lines on standard error."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ariane_admin.errors import say_error

LOGGER: Final = logging.getLogger("ariane_sdk")
# A command says by itself what went wrong, and what it goes on with.
LOGGER.addHandler(logging.NullHandler())

SAY_AGAIN_S: Final = 30.0
"""What is warned of again and again is said so often."""

SAID_MAX: Final = 1000


def say_warning(message: str) -> None:
    """Write one line that tells what is wrong while the command goes on."""
    say_error(f"warning: {message}")


class _WarningPrinter(logging.Handler):
    def __init__(self, except_for: type[Exception]) -> None:
        super().__init__(logging.WARNING)
        self._except_for = except_for
        self._said_s: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say one warning; its trace is for programs. Not what the command itself has caused."""
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage()
        again_s = self._said_s.get(message, -math.inf) + SAY_AGAIN_S
        if isinstance(error, self._except_for) or record.created < again_s:
            return
        if len(self._said_s) >= SAID_MAX:
            self._said_s.clear()
        self._said_s[message] = record.created
        say_warning(message)


@contextmanager
def client_warnings(except_for: type[Exception]) -> Iterator[None]:
    """Say the client's warnings for the length of a block; otherwise nobody hears them.

    Args:
        except_for: Not those of this error, by which the command stops its consumer.
    """
    sayer = _WarningPrinter(except_for)
    LOGGER.addHandler(sayer)
    try:
        yield
    finally:
        LOGGER.removeHandler(sayer)
