"""Warnings of the client while a command runs: lines on standard error."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ariane_admin.errors import say_error

LOGGER: Final = logging.getLogger("ariane_sdk")
# The SDK's logger is silent: a command writes its errors and warnings itself.
LOGGER.addHandler(logging.NullHandler())

REPEAT_AFTER_S: Final = 30.0
"""The interval at which a repeated warning is written again."""

REMEMBERED_MAX: Final = 1000


def say_warning(message: str) -> None:
    """Write one line of warning while the command goes on."""
    say_error(f"warning: {message}")


class _WarningPrinter(logging.Handler):
    def __init__(self, except_for: type[Exception]) -> None:
        super().__init__(logging.WARNING)
        self._except_for = except_for
        self._written_s: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write one warning, without its trace, unless the command itself caused it."""
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage()
        again_s = self._written_s.get(message, -math.inf) + REPEAT_AFTER_S
        if isinstance(error, self._except_for) or record.created < again_s:
            return
        if len(self._written_s) >= REMEMBERED_MAX:
            self._written_s.clear()
        self._written_s[message] = record.created
        say_warning(message)


@contextmanager
def client_warnings(except_for: type[Exception]) -> Iterator[None]:
    """Write the client's warnings for the length of a block; outside of it they are dropped.

    Args:
        except_for: An error whose warnings are left out: the command stops its consumer with it.
    """
    sayer = _WarningPrinter(except_for)
    LOGGER.addHandler(sayer)
    try:
        yield
    finally:
        LOGGER.removeHandler(sayer)
