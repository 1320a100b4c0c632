"""Counts for operators: messages that wait for delivery, and past deliveries."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.lateness import Lateness
from ariane_broker.delay.level_queues import LevelQueues
from ariane_broker.delay.timer.timer_queue import TimerQueue


class PendingLevel(NamedTuple):
    """The waiting messages of one delay level."""

    level: int
    """The level."""
    wait_ms: int
    """The delay of the level; 0 if the table no longer has the level."""
    pending_count: int
    """Number of waiting messages."""
    next_due_ms: int
    """When the first of them is due, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class DelayedCounts:
    """Counts delayed messages."""

    levels: LevelQueues
    timer: TimerQueue
    delivery: Delivery
    _: KW_ONLY
    levels_ms: tuple[int, ...]

    @property
    def timed_pending_count(self) -> int:
        """Number of messages that wait for a time of their own."""
        return self.timer.pending_count

    @property
    def delivered_count(self) -> int:
        """Messages delivered since the start."""
        return self.delivery.delivered_count

    @property
    def dropped_count(self) -> int:
        """Messages since the start that could not be delivered."""
        return self.delivery.dropped_count

    @property
    def lateness(self) -> Lateness:
        """How late deliveries were."""
        return self.delivery.lateness

    def pending_levels(self) -> list[PendingLevel]:
        """The levels with waiting messages."""
        found = []
        for level in self.levels.levels:
            count, next_due_ms = self.levels.pending_of(level)
            if count and next_due_ms is not None:
                wait_ms = self.levels_ms[level - 1] if level <= len(self.levels_ms) else 0
                found.append(PendingLevel(level, wait_ms, count, next_due_ms))
        return found
