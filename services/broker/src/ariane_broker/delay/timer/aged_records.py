"""Old records of the timer topic are parked again before retention would reach them.

A message may wait for weeks, while the log is kept for days. Waiting records hold back retention,
so nothing is lost in any case; parking them again releases the old part of the log.

The same is done when the disk fills up, however young the log is: records that wait in its older
half are parked again, unless that is most of it. Then these messages themselves fill the disk, and
copies would fill it sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.timer.reparking import Reparking
from ariane_broker.delay.timer.timer_queue import SLICE_BYTES, SLICE_COUNT, TIMER_QUEUE, TimerQueue
from ariane_broker.log.cold_reads import DELAYED
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.disk.cold import BytesCold
from ariane_storage.errors import QueueUnderRepair, StoreFull, StorePoisoned
from ariane_storage.store import Store

TURN_SECONDS_MAX: Final = 60.0

SCAN_COUNT: Final = 1 << 14
"""Entries that are looked at in one go."""

_log = get_logger(__name__)


class AgedRecords:
    """Parks records again that wait for long."""

    def __init__(
        self,
        store: Store,
        timer: TimerQueue,
        reparking: Reparking,
        clock: Clock,
        *,
        believed_ms: Callable[[], int],
        age_ms: int,
        is_pressed: Callable[[], bool],
    ) -> None:
        """Records of ``age_ms``, by the believed time, are parked again.

        ``believed_ms`` doubts jumps of the clock. ``is_pressed`` tells whether even young segments
        must go, for lack of space.
        """
        self._store = store
        self._timer = timer
        self._reparking = reparking
        self._cold_reads = reparking.log.cold_reads
        self._believed_ms = believed_ms
        self._age_ms = age_ms
        self._is_pressed = is_pressed
        self.reparked_count = 0
        """Records parked again since the start."""
        interval_s = min(TURN_SECONDS_MAX, age_ms / 4000)
        self.loop = Loop("park-again", self.turn, interval_s=interval_s, clock=clock)

    async def turn(self) -> None:
        """Park old records again, in slices; other tasks get their turn in between."""
        old_ms = self._believed_ms() - self._age_ms
        try:
            look = partial(self._store.queue_offset_at_time, *TIMER_QUEUE, old_ms)
            end: int = await self._cold_reads.run(DELAYED, look)
            if self._is_pressed():
                end = max(end, await self._end_of_older_half())
            async for rows in self._waiting(end):
                await self._repark(rows)
        except (QueueUnderRepair, StoreFull, StorePoisoned) as error:
            _log.warning("records_not_parked_again", reason=str(error))

    async def _end_of_older_half(self) -> int:
        """The end of what waits in the older half of the log; 0 if it would be of no use."""
        begin, end = self._store.min_offset, self._store.max_offset
        middle = (begin + end) // 2
        waiting_bytes = queue_end = 0
        async for rows in self._waiting(None):
            older = rows.take(rows.commit_log_offsets < middle)
            if len(older):
                waiting_bytes += int(older.sizes.sum())
                queue_end = int(older.queue_offsets[-1]) + 1
            if len(older) < len(rows):
                break
        return queue_end if 2 * waiting_bytes < middle - begin else 0

    async def _waiting(self, end: int | None) -> AsyncIterator[ParkedRows]:
        """The records that wait for long, one part of the log after another.

        Args:
            end: Up to this queue offset; None goes on to the end of the queue.
        """
        queue_offset = self._timer.begin
        while end is None or queue_offset < end:
            count = SCAN_COUNT if end is None else min(end - queue_offset, SCAN_COUNT)
            look = partial(self._timer.waiting_long, queue_offset, count)
            queue_offset, rows = await self._cold_reads.run(DELAYED, look)
            if not queue_offset:
                return
            if len(rows):
                yield rows
            await asyncio.sleep(0)

    async def _repark(self, rows: ParkedRows) -> None:
        while len(rows):
            part = rows.take(slice(SLICE_COUNT)).within(SLICE_BYTES)
            pending = self._timer.pending(part)
            try:
                self.reparked_count += self._reparking.repark(pending, self._timer.mark)
            except BytesCold as cold:
                await self._cold_reads.fetch(DELAYED, cold, TIMER_QUEUE)
                continue
            rows = rows.take(slice(len(part), None))
            await asyncio.sleep(0)
