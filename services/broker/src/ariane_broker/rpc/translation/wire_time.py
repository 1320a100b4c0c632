"""Instants and spans of the contract, to and from plain numbers."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ariane_servicekit.errors import field_invalid

_TIMESTAMP_MS_MIN: Final = -62_135_596_800_000
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The years 1 to 9999, as the contract's type defines them."""

_DURATION_SECONDS_MAX: Final = 315_576_000_000


def time_of(timestamp_ms: int) -> Timestamp:
    """An instant from milliseconds since the epoch."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return Timestamp(seconds=seconds, nanos=milliseconds * 1_000_000)


def set_time(time: Timestamp, timestamp_ms: int) -> None:
    """Make a field that is still empty an instant, from milliseconds since the epoch."""
    time.seconds, milliseconds = divmod(timestamp_ms, 1000)
    time.nanos = milliseconds * 1_000_000


def milliseconds_of(time: Timestamp, field: str) -> int:
    """Milliseconds since the epoch, rounded down.

    Args:
        time: The instant.
        field: Its path in the request.

    Raises:
        ServiceError: FIELD_INVALID when it is outside the years 1 to 9999.
    """
    timestamp_ms = time.seconds * 1000 + time.nanos // 1_000_000
    if not 0 <= time.nanos < 1_000_000_000 or not (
        _TIMESTAMP_MS_MIN <= timestamp_ms <= _TIMESTAMP_MS_MAX
    ):
        raise field_invalid(field, "must be a time in the years 1 to 9999")
    return timestamp_ms


def span_of(seconds: float) -> Duration:
    """A span from seconds, to the millisecond."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return Duration(seconds=whole, nanos=milliseconds * 1_000_000)


def seconds_of(span: Duration, field: str) -> float:
    """Seconds of a span that may not be negative.

    Args:
        span: The span; an absent one is zero.
        field: Its path in the request.

    Raises:
        ServiceError: FIELD_INVALID when it is negative or no span at all.
    """
    if not 0 <= span.seconds <= _DURATION_SECONDS_MAX or not 0 <= span.nanos < 1_000_000_000:
        raise field_invalid(field, "must be a duration of 0 or more")
    return span.seconds + span.nanos / 1e9
