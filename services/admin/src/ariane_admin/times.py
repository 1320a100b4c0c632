"""Conversion of the contract's times to text, and from Python; lengths of time as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

_LENGTH: Final = re.compile(
    r"(?=.)(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,6})h)?(?:(?P<minutes>\d{1,6})m)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)s)?(?:(?P<milliseconds>\d{1,12})ms)?"
)
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


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


def length_of_time(text: str) -> timedelta | None:
    """Parse a length of time, such as ``1h30m``; None if it is not one."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        return None
    return timedelta(**{unit: float(count) for unit, count in found.groupdict("0").items()})


def length_text(milliseconds: int) -> str:
    """A length of time as ``length_of_time`` reads it: ``1h30m``, ``1d12h``, ``250ms``."""
    text, rest = "", milliseconds
    for unit, unit_ms in _UNITS_MS:
        count, rest = divmod(rest, unit_ms)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
