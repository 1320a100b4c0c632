"""Conversion of instants and spans of the contract."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from ariane_servicekit import field_invalid


def time_of(time_ms: int) -> Timestamp:
    """An instant from milliseconds since 1970."""
    time = Timestamp()
    time.FromMilliseconds(time_ms)
    return time


def milliseconds_in(request: Message, field: str) -> int | None:
    """An instant of a request in milliseconds since 1970; None if it is absent.

    Raises:
        ServiceError: FIELD_INVALID for an invalid time.
    """
    if not request.HasField(field):
        return None
    try:
        milliseconds: int = getattr(request, field).ToMilliseconds()
    except ValueError:
        raise field_invalid(field, "must be a time in the years 1 to 9999") from None
    return milliseconds


def moment_in(request: Message, field: str) -> datetime | None:
    """An instant of a request; None if it is absent.

    Raises:
        ServiceError: FIELD_INVALID for an invalid time.
    """
    milliseconds = milliseconds_in(request, field)
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError):
        raise field_invalid(field, "must be a time in the years 1 to 9999") from None
