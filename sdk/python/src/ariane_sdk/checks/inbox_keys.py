"""What every inbox asks of its consumer, its keys and the time that it keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Protocol

from ariane_sdk.errors import IllegalArgument

CONSUMER_LENGTH_MAX: Final = 120
KEY_LENGTH_MAX: Final = 255
_KEPT_MAX: Final = timedelta(days=36_500)

_NO_KEY: Final = frozenset(map(chr, (0, *range(0xD800, 0xE000))))
"""Characters that PostgreSQL refuses in text."""


class Identified(Protocol):
    """A message with the id that its producer gave it."""

    @property
    def unique_id(self) -> str:
        """The same for every delivery of a message, and for every repeat of a send."""


def unique_id(message: Identified) -> str:
    """The default key: the producer's unique id."""
    return message.unique_id


def checked_consumer(consumer: str) -> str:
    """Return a consumer name if an inbox can store keys under it.

    Raises:
        IllegalArgument: It is empty or longer than 120 characters.
    """
    if not 0 < len(consumer) <= CONSUMER_LENGTH_MAX:
        raise IllegalArgument(
            f"an inbox needs a consumer of 1 to {CONSUMER_LENGTH_MAX} characters, not {consumer!r}"
        )
    return consumer


def checked_key(key: object) -> str:
    """Return the key of a message if an inbox can store it.

    Raises:
        IllegalArgument: It is not a text, or is empty or longer than 255 characters.
    """
    if not isinstance(key, str) or not _NO_KEY.isdisjoint(key):
        raise IllegalArgument(f"an inbox key is a text without NUL and surrogates, not {key!r:.60}")
    if not 0 < len(key) <= KEY_LENGTH_MAX:
        raise IllegalArgument(
            f"an inbox key has 1 to {KEY_LENGTH_MAX} characters, this one {len(key)}: {key[:40]!r}"
        )
    return key


def checked_time(name: str, time: object) -> timedelta:
    """Return how long something is kept, if it is a time.

    Raises:
        IllegalArgument: It is no timedelta, or not above 0, or reaches back beyond the calendar.
    """
    if not isinstance(time, timedelta) or not timedelta(0) < time <= _KEPT_MAX:
        raise IllegalArgument(
            f"{name} {time!r:.60}: a timedelta above 0 is expected, at most {_KEPT_MAX.days} days"
        )
    return time
