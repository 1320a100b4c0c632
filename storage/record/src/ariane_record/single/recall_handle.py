"""The handle to recall a delayed message: a text that its producer makes, as in RocketMQ.

::

    base64url("v1 <topic> <broker> <delivery time in ms> <unique id>")
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

from ariane_record.errors import RecallHandleIllegal

_VERSION: Final = "v1"
_WORDS: Final = 5
_HANDLE_LENGTH_MAX: Final = 2048


class RecallHandle(NamedTuple):
    """The content of a handle."""

    topic: str
    """The topic that it was sent to."""
    broker_name: str
    """The broker that keeps it."""
    delivery_time_ms: int
    """When it is due, milliseconds since the epoch."""
    unique_id: str
    """The id that its producer gave it."""

    def encode(self) -> str:
        """The handle as text."""
        return urlsafe_b64encode(" ".join((_VERSION, *map(str, self))).encode()).decode()


def decode_recall_handle(handle: str) -> RecallHandle:
    """The content of a handle.

    Raises:
        RecallHandleIllegal: The text is not a handle.
    """
    if not handle:
        raise RecallHandleIllegal("no recall handle: messages of a delay level have none")
    if len(handle) > _HANDLE_LENGTH_MAX:
        raise RecallHandleIllegal("no recall handle: it is too long")
    try:
        words = urlsafe_b64decode(handle).decode().split(" ")
    except ValueError as error:
        raise RecallHandleIllegal("no recall handle") from error
    if len(words) != _WORDS or words[0] != _VERSION or not words[3].isdecimal():
        raise RecallHandleIllegal("no recall handle, or of a version that is not known here")
    return RecallHandle(words[1], words[2], int(words[3]), words[4])
