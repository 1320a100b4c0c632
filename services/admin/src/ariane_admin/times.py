"""Conversion of the contract's times to text, and from Python."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


def moment_text(message: Message, field: str) -> str | None:
    """A time of a message in ISO 8601, to the millisecond; None if it is absent."""
    if not message.HasField(field):
        return None
    time: Timestamp = getattr(message, field)
    return time.ToDatetime(UTC).isoformat(timespec="milliseconds")


def timestamp_of(moment: datetime | None) -> Timestamp | None:
    """A time as a message of the contract."""
    if moment is None:
        return None
    time = Timestamp()
    time.FromDatetime(moment)
    return time
