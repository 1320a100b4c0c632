"""The loop that delivers what is due, in slices between which everything else has its turn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.lateness import TIME_MS_MIN
from ariane_broker.delay.level_queues import LevelQueues, queue_of
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.timer.reparking import Reparking
from ariane_broker.delay.timer.timer_queue import SLICE_BYTES, SLICE_COUNT, TIMER_QUEUE, TimerQueue
from ariane_broker.log.broker_log import BrokerLog
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.errors import QueueUnderRepair, StoreFull, StorePoisoned

WAIT_SECONDS_MAX: Final = 1.0
"""The clock of the machine may be set: it is looked at as often as that."""

ROUND_SLICES: Final = 16
"""Slices of one level, or of the timer topic, before the others have their turn."""

_log = get_logger(__name__)


class DeliveryLoop:
    """Delivers what is due."""

    def __init__(
        self,
        levels: LevelQueues,
        timer_queue: TimerQueue,
        delivery: Delivery,
        reparking: Reparking,
        *,
        log: BrokerLog,
        clock: Clock,
    ) -> None:
        self._levels = levels
        self._timer_queue = timer_queue
        self._delivery = delivery
        self._reparking = reparking
        self._clock = clock
        self._log = log
        self._wakes_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        self._is_repairing = self._was_repairing = False
        self.loop = Loop("deliver-delayed", self.turn, interval_s=WAIT_SECONDS_MAX, clock=clock)

    def parked(self, due_ms: int) -> None:
        """A record was parked: perhaps it is due before everything else."""
        if self._wakes_ms is None or due_ms < self._wakes_ms:
            self._wake_at(due_ms)

    async def turn(self) -> None:
        """Deliver all that is due by now."""
        self._was_repairing, self._is_repairing = self._is_repairing, False
        try:
            while await self._deliver_round():
                pass
            self._is_full = False
        except StorePoisoned:
            return  # The process is on its way out.
        except StoreFull as error:
            if not self._is_full:
                _log.error("delayed_messages_wait", reason=error.reason)
            self._is_full = True
            return  # Another try with the next turn.
        if self._is_repairing:
            return
        due = [self._levels.next_due_ms(), self._timer_queue.next_due_ms()]
        self._wakes_ms = None
        for due_ms in due:
            if due_ms is not None:
                self.parked(due_ms)

    async def _deliver_round(self) -> bool:
        """Deliver some of everything that is due; whether there may be more.

        What falls due faster than it can be delivered holds up itself, and nothing else.
        """
        before = self._delivery.delivered_count
        try:
            more = [await self._deliver_level(level) for level in self._levels.levels]
            more.append(await self._deliver_timer())
        finally:
            if self._delivery.delivered_count != before:
                self._log.hasten()
        return any(more)

    async def _deliver_level(self, level: int) -> bool:
        mark = partial(self._levels.mark, level)
        for _ in range(ROUND_SLICES):
            rows = self._levels.due(level, SLICE_COUNT).within(SLICE_BYTES)
            if not len(rows):
                return False
            try:
                self._delivery.deliver(queue_of(level), rows, mark)
            except QueueUnderRepair as error:
                self._wait_for_repair(error)
                return False
            await asyncio.sleep(0)
        return True

    async def _deliver_timer(self) -> bool:
        timer = self._timer_queue
        for _ in range(ROUND_SLICES):
            more = timer.refill()
            rows = timer.take_due(SLICE_COUNT)
            if len(rows) and not self._deliver_slice(rows):
                return False
            await asyncio.sleep(0)
            if not more and not len(rows):
                return False
        return True

    def _deliver_slice(self, rows: ParkedRows) -> bool:
        """Deliver some records of the timer topic; what is not done with waits on.

        Returns:
            Whether its queue can be read; if not, what entries have said is void.
        """
        timer = self._timer_queue
        chosen = rows.within(SLICE_BYTES)
        # RocketMQ's own entries of this topic do not say the time; then the records do.
        untimed = chosen.due_ms < TIME_MS_MIN
        try:
            if untimed.any():
                self._reparking.repark_early(chosen.take(untimed), timer.mark)
            self._delivery.deliver(TIMER_QUEUE, timer.pending(chosen), timer.mark)
        except QueueUnderRepair as error:
            self._wait_for_repair(error)
            timer.look_again()
            rows = rows.take(slice(0))
            return False
        finally:
            timer.give_back(rows)
        return True

    def _wait_for_repair(self, error: QueueUnderRepair) -> None:
        """Leave a queue alone until the next turn; say so once, not every turn."""
        if not (self._is_repairing or self._was_repairing):
            _log.warning("delayed_messages_wait", reason=str(error))
        self._is_repairing = True

    def _wake_at(self, due_ms: int) -> None:
        self._wakes_ms = due_ms
        if self._timer is not None:
            self._timer.cancel()
        wait_seconds = max(0, due_ms - self._clock.now_ms()) / 1000
        if wait_seconds < WAIT_SECONDS_MAX:
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self.loop.wake)
