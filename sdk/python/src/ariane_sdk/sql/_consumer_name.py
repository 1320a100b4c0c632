"""The consumer name under which an inbox stores its keys."""

from __future__ import annotations

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.sql._tables import CONSUMER_LENGTH_MAX


def checked_consumer(consumer: str) -> str:
    """Return a consumer name if it fits into the table.

    Raises:
        IllegalArgument: It is empty or longer than 120 characters.
    """
    if not 0 < len(consumer) <= CONSUMER_LENGTH_MAX:
        raise IllegalArgument(
            f"an inbox needs a consumer of 1 to {CONSUMER_LENGTH_MAX} characters, not {consumer!r}"
        )
    return consumer
