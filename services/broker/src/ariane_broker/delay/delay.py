"""The delay of a message, as its producer gives it."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_storage.log.records.fields import Int64s


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """Delivery after the delay of a level."""

    level: int
    """From 1; numbers above the highest level mean the highest."""


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryTimes:
    """Delivery of each message at a time of its own."""

    times_ms: Int64s
    """Milliseconds since the epoch, one for each record."""


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Delivery of each message a time of its own after the broker takes it."""

    delays_ms: Int64s
    """Milliseconds, one for each record."""


Delay = DelayLevel | DeliveryTimes | Delays
