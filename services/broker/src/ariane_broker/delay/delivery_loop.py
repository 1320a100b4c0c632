"""The loop that delivers due records in slices; other tasks get their turn in between."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import numpy as np

from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.lateness import TIME_MS_MIN
from ariane_broker.delay.level_queues import LevelQueues, queue_of
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.timer.reparking import Reparking
from ariane_broker.delay.timer.timer_queue import SLICE_BYTES, SLICE_COUNT, TIMER_QUEUE, TimerQueue
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.cold_reads import DELAYED
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.disk.cold import BytesCold
from ariane_storage.errors import QueueUnderRepair, StoreFull, StorePoisoned

WAIT_SECONDS_MAX: Final = 1.0
"""The machine's clock may be set: the loop looks at it this often."""

ROUND_SLICES: Final = 16
"""Slices of one level, or of the timer topic, before the others get their turn."""

_log = get_logger(__name__)


class DeliveryLoop:
    """Delivers due records."""

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
        self._cold_reads = log.cold_reads
        self._wakes_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        self._is_repairing = self._was_repairing = False
        self.loop = Loop("deliver-delayed", self.turn, interval_s=WAIT_SECONDS_MAX, clock=clock)

    def parked(self, due_ms: int) -> None:
        """Note that a record was parked, which may be due before all others."""
        if self._wakes_ms is None or due_ms < self._wakes_ms:
            self._wake_at(due_ms)

    async def turn(self) -> None:
        """Deliver everything that is due."""
        self._was_repairing, self._is_repairing = self._is_repairing, False
        try:
            while await self._deliver_round():
                pass
            self._is_full = False
        except StorePoisoned:
            return  # The process is about to end.
        except StoreFull as error:
            if not self._is_full:
                _log.error("delayed_messages_wait", reason=error.reason)
            self._is_full = True
            return  # The next turn tries again.
        if self._is_repairing:
            return
        due_of_levels = await self._cold_reads.run(DELAYED, self._levels.next_due_ms)
        due = [due_of_levels, self._timer_queue.next_due_ms()]
        self._wakes_ms = None
        for due_ms in due:
            if due_ms is not None:
                self.parked(due_ms)

    async def _deliver_round(self) -> bool:
        """Deliver some of everything that is due; returns whether there may be more.

        Records that fall due faster than they can be delivered delay only one another.
        """
        before = self._delivery.delivered_count
        try:
            more = [await self._deliver_level(level) for level in self._levels.waiting_levels]
            more.append(await self._deliver_timer())
        finally:
            if self._delivery.delivered_count != before:
                self._log.hasten()
        return any(more)

    async def _deliver_level(self, level: int) -> bool:
        mark = partial(self._levels.mark, level)
        for _ in range(ROUND_SLICES):
            due = partial(self._levels.due, level, SLICE_COUNT)
            rows = (await self._cold_reads.run(DELAYED, due)).within(SLICE_BYTES)
            if not len(rows):
                return False
            try:
                self._delivery.deliver(queue_of(level), rows, mark)
            except BytesCold as cold:
                await self._cold_reads.fetch(DELAYED, cold, queue_of(level))
                continue
            except QueueUnderRepair as error:
                self._wait_for_repair(error)
                return False
            await asyncio.sleep(0)
        return True

    async def _deliver_timer(self) -> bool:
        timer = self._timer_queue
        for _ in range(ROUND_SLICES):
            more = await self._cold_reads.run(DELAYED, timer.refill)
            rows = timer.take_due(SLICE_COUNT)
            try:
                if len(rows) and not self._deliver_slice(rows):
                    return False
            except BytesCold as cold:
                await self._cold_reads.fetch(DELAYED, cold, TIMER_QUEUE)
            await asyncio.sleep(0)
            if not more and not len(rows):
                return False
        return True

    def _deliver_slice(self, rows: ParkedRows) -> bool:
        """Deliver some records of the timer topic; records that are not done keep waiting.

        Returns:
            Whether the queue can be read; otherwise its entries were wrong.

        Raises:
            BytesCold: The records are not in memory, and keep waiting.
        """
        timer = self._timer_queue
        chosen = rows.within(SLICE_BYTES)
        # RocketMQ's own entries of this topic have no time: only the records have.
        untimed = chosen.due_ms < TIME_MS_MIN
        try:
            if untimed.any():
                early = self._reparking.repark_early(chosen.take(untimed), timer.mark)
                # Refused records wait in memory, or are read again when they are due.
                timer.give_back(early)
                rows = rows.take(~np.isin(rows.queue_offsets, early.queue_offsets))
                chosen = chosen.take(~np.isin(chosen.queue_offsets, early.queue_offsets))
            self._delivery.deliver(TIMER_QUEUE, timer.pending(chosen), timer.mark)
        except QueueUnderRepair as error:
            self._wait_for_repair(error)
            timer.rescan()
            rows = rows.take(slice(0))
            return False
        finally:
            timer.give_back(rows)
        return True

    def _wait_for_repair(self, error: QueueUnderRepair) -> None:
        """Skip a queue until the next turn; log this once, not every turn."""
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
