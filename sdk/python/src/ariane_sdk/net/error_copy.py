"""One error more that says the same."""

from __future__ import annotations

from typing import TypeVar

from ariane_sdk.errors import ArianeError

E = TypeVar("E", bound=ArianeError)


def error_copy(error: ArianeError, kind: type[E]) -> E:
    """What an error says, as an error of a kind.

    Args:
        error: The error.
        kind: One that is made of a text and what every error of this package has.
    """
    return kind(
        str(error),
        reason=error.reason,
        outcome_unknown=error.outcome_unknown,
        retriable=error.retriable,
        retry_after_s=error.retry_after_s,
        metadata=error.metadata,
    )
