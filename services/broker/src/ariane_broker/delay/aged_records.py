"""Old records of the timer topic, parked again before retention would reach them.

A message may wait for weeks, and the log is kept for days. What waits holds back retention, so
nothing is lost in any case; parking it again lets go of the old part of the log.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from ariane_broker.delay.reparking import Reparking
from ariane_broker.delay.timer_queue import SLICE_BYTES, SLICE_COUNT, TIMER_QUEUE, TimerQueue
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.errors import StoreFull, StorePoisoned

TURN_SECONDS_MAX: Final = 600.0

_log = get_logger(__name__)


class DatedQueues(Protocol):
    """What is asked of the store."""

    def queue_offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first queue offset that was stored at a time or after it."""
        ...


class AgedRecords:
    """Parks again what waits for long.

    Attributes:
        reparked_count: Records parked again since the start.
    """

    def __init__(
        self,
        dated: DatedQueues,
        timer: TimerQueue,
        reparking: Reparking,
        clock: Clock,
        *,
        age_ms: int,
    ) -> None:
        """Take the parts.

        Args:
            dated: Says which records are old.
            timer: Says which of them wait.
            reparking: Parks them again.
            clock: Says what time it is.
            age_ms: From which age on.
        """
        self._dated = dated
        self._timer = timer
        self._reparking = reparking
        self._clock = clock
        self._age_ms = age_ms
        self.reparked_count = 0
        interval_s = min(TURN_SECONDS_MAX, age_ms / 4000)
        self.loop = Loop("park-again", self.turn, interval_s=interval_s, clock=clock)

    async def turn(self) -> None:
        """Park again what is old, in slices between which everything else has its turn."""
        old_ms = self._clock.now_ms() - self._age_ms
        end = self._dated.queue_offset_at_time(*TIMER_QUEUE, old_ms)
        queue_offset = self._timer.begin
        while queue_offset < end:
            looked_at, rows = self._timer.waiting_long(
                queue_offset, min(end - queue_offset, 1 << 14)
            )
            if not looked_at:
                return
            queue_offset = looked_at
            while len(rows):
                part = rows.take(slice(SLICE_COUNT)).within(SLICE_BYTES)
                rows = rows.take(slice(len(part), None))
                try:
                    self._reparking.repark(self._timer.pending(part), self._timer.mark)
                except (StoreFull, StorePoisoned) as error:
                    _log.warning("records_not_parked_again", reason=str(error))
                    return
                self.reparked_count += len(part)
                await asyncio.sleep(0)
