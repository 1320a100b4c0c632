"""The delay of a message, as its producer gives it."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_storage.log.records.fields import Int64s


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """Delivery after the delay of a level.

    Attributes:
        level: From 1; numbers above the highest level mean the highest.
    """

    level: int


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryTimes:
    """Delivery of each message at a time of its own.

    Attributes:
        times_ms: Milliseconds since the epoch, one for each record.
    """

    times_ms: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Delivery of each message a time of its own after the broker takes it.

    Attributes:
        delays_ms: Milliseconds, one for each record.
    """

    delays_ms: Int64s


Delay = DelayLevel | DeliveryTimes | Delays
