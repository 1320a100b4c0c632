"""A copy of an error, of another class."""

from __future__ import annotations

from typing import TypeVar

from ariane_sdk.errors import ArianeError

E = TypeVar("E", bound=ArianeError)


def error_copy(error: ArianeError, kind: type[E]) -> E:
    """Copy an error.

    Args:
        error: The error.
        kind: The class of the copy; its constructor takes a text and what every error here has.
    """
    return kind(
        str(error),
        reason=error.reason,
        outcome_unknown=error.outcome_unknown,
        retriable=error.retriable,
        retry_after_s=error.retry_after_s,
        metadata=error.metadata,
    )
