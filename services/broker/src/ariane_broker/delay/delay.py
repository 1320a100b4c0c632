"""The delay of a message, as its producer gives it."""

from __future__ import annotations

from typing import NamedTuple

from ariane_storage.log.records.fields import Int64s


class Delay(NamedTuple):
    """When messages are to be delivered: by a level, or each at a time of its own."""

    level: int = 0
    """The level after whose delay they are delivered, from 1; numbers above the highest level mean
    the highest. 0 with times."""
    times_ms: Int64s | None = None
    """One for each record, in milliseconds; None with a level."""
    after_arrival: bool = False
    """Whether the times count from when the broker takes the records, not since the epoch."""
