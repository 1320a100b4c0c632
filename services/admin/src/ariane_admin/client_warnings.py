"""What the client warns of while a command runs on: lines on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ariane_admin.errors import say_error


def say_warning(message: str) -> None:
    """Write one line that tells what is wrong while the command goes on."""
    say_error(f"warning: {message}")


class _Sayer(logging.Handler):
    def __init__(self, except_for: type[Exception]) -> None:
        super().__init__(logging.WARNING)
        self._except_for = except_for

    def emit(self, record: logging.LogRecord) -> None:
        """Say one warning; its trace is for programs. Not what the command itself has caused."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, self._except_for):
            say_warning(record.getMessage())


@contextmanager
def client_warnings(except_for: type[Exception]) -> Iterator[None]:
    """Say the client's warnings for the length of a block; otherwise nobody hears them.

    Args:
        except_for: Not those of this error, by which the command stops its consumer.
    """
    logger, sayer = logging.getLogger("ariane_sdk"), _Sayer(except_for)
    logger.addHandler(sayer)
    try:
        yield
    finally:
        logger.removeHandler(sayer)
