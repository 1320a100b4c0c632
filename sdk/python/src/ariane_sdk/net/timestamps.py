"""Conversion of the contract's timestamps and durations, to and from numbers and datetimes."""

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
    """The timestamp of a datetime with a time zone.

    Raises:
        IllegalArgument: The datetime has no time zone, or is outside the contract's range.
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
    """The datetime of a timestamp, in UTC."""
    return timestamp.ToDatetime(tzinfo=UTC)


def duration_from(seconds: float) -> Duration:
    """A duration from seconds."""
    nanos = round(seconds * _NANOS_PER_S)
    return Duration(seconds=nanos // _NANOS_PER_S, nanos=nanos % _NANOS_PER_S)


def duration_s(duration: Duration) -> float:
    """The seconds of a duration."""
    return duration.seconds + duration.nanos / _NANOS_PER_S
