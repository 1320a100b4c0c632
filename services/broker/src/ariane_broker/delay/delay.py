"""When a message is to be delivered, as its producer says it."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_storage.log.records.fields import Int64s


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """After the delay of a level.

    Attributes:
        level: From 1; above the highest one it is the highest.
    """

    level: int


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryTimes:
    """Each message at a time of its own.

    Attributes:
        times_ms: Milliseconds since the epoch, one for each record.
    """

    times_ms: Int64s


Delay = DelayLevel | DeliveryTimes
