"""Instants and spans of the contract, to and from the numbers that the client uses."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ariane_sdk.errors import IllegalArgument

_NANOS_PER_MS = 1_000_000
_NANOS_PER_S = 1_000_000_000


def timestamp_ms(timestamp: Timestamp) -> int:
    """Milliseconds since the epoch."""
    return timestamp.seconds * 1000 + timestamp.nanos // _NANOS_PER_MS


def timestamp_from(moment: datetime) -> Timestamp:
    """The instant of a moment that knows its time zone.

    Raises:
        IllegalArgument: It knows none, or is no moment that the contract can say.
    """
    if not isinstance(moment, datetime):
        raise IllegalArgument(f"{moment!r:.100} is no datetime")
    if moment.tzinfo is None:
        raise IllegalArgument(f"{moment!r} has no time zone; use datetime(..., tzinfo=UTC)")
    timestamp = Timestamp()
    try:
        timestamp.FromDatetime(moment)
    except (OverflowError, ValueError) as error:
        raise IllegalArgument(f"{moment!r} is outside the years 1 to 9999 of UTC") from error
    return timestamp


def moment_from(timestamp: Timestamp) -> datetime:
    """The moment of an instant, in UTC."""
    return timestamp.ToDatetime(tzinfo=UTC)


def duration_from(seconds: float) -> Duration:
    """A span of time."""
    nanos = round(seconds * _NANOS_PER_S)
    return Duration(seconds=nanos // _NANOS_PER_S, nanos=nanos % _NANOS_PER_S)


def duration_s(duration: Duration) -> float:
    """Seconds of a span."""
    return duration.seconds + duration.nanos / _NANOS_PER_S
