r"""The timer topic: records that are due at any time, all in one queue.

The entry of each record in the consume queue has its time, so the consume queue itself is the list
of all waiting records. Records due within the next minute are in memory; for each part of the queue
only the earliest later time is kept::

    consume queue    | part 0 | part 1 | part 2 | part 3 |
    earliest time       09:00    17:30    08:15    none      \
                          |                 |                  those with a time in the window
                          v                 v                  are read through
    window           due until 09:00: in memory, sorted

Delivered records are kept as a queue offset and marks behind it, rebuilt from the log like those of
the delay levels. So are RocketMQ's deliveries (``rocketmq_takings``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from ariane_broker.delay.lateness import TIME_MS_MIN
from ariane_broker.delay.parked.delivered_origins import delivered_origins
from ariane_broker.delay.parked.parked_queue import (
    SCAN_COUNT,
    ParkedRows,
    mark_origins,
    needed_from,
    rows_from,
)
from ariane_broker.delay.parked.parked_records import read_parked
from ariane_broker.delay.parked.queue_progress import QueueProgress, copied_marks, encoded_marks
from ariane_broker.delay.timer.rocketmq_takings import RocketmqTakings
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_broker.delay.timer.timer_window import TimerWindow, joined
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_record.names import TIMER_TOPIC
from ariane_servicekit import get_logger
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.store import Store

FILE_NAME: Final = "config/timerProgress.json"
TIMER_QUEUE: Final = QueueKey(TIMER_TOPIC, 0)

SLICE_COUNT: Final = 512
"""Messages that are moved in one go: some milliseconds of the loop."""

SLICE_BYTES: Final = 4 << 20
"""Bytes of them, however few they are."""

WINDOW_MS: Final = 60_000
WINDOW_COUNT_MAX: Final = 1 << 19
"""Records in memory, 32 bytes each; those of one millisecond stay together, however many."""

_log = get_logger(__name__)
_LONG_AGO: Final = -(1 << 62)


class TimerQueue(SnapshotState):
    """The queue of the timer topic."""

    name: Final = "timer"
    """Name of this state in the process's log."""
    matters_since_ms: Final = None
    """None: any record of the log may matter."""

    def __init__(
        self,
        store: Store,
        handover: TimerHandover,
        *,
        now_ms: Callable[[], int],
        window_count_max: int = WINDOW_COUNT_MAX,
    ) -> None:
        """Start without deliveries; about ``window_count_max`` records are kept in memory."""
        self._store = store
        self._handover = handover
        self._restored = False
        self._now_ms = now_ms
        self._window_count_max = window_count_max
        self._progress = QueueProgress()
        self._origins: list[Int64s] = []
        self._takings = RocketmqTakings()
        self._window = TimerWindow()
        # All records due up to here are in the window, except parts that are still to be read.
        self._horizon_ms = _LONG_AGO
        self._reading: list[int] = []
        self._read_end = self._end = 0
        self._read_from_ms = _LONG_AGO
        # The earliest time beyond the horizon in each part of the queue.
        self._earliest_ms: dict[int, int] = {}
        self.change_count = 0
        """Grows with every change."""

    @property
    def begin(self) -> int:
        """The oldest queue offset that is not delivered."""
        return self._progress.begin

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset of the oldest waiting record; None if none waits."""
        return needed_from(self._store, TIMER_QUEUE, self._progress.begin)

    @property
    def window_count(self) -> int:
        """Number of records in memory."""
        return len(self._window)

    @property
    def pending_count(self) -> int:
        """Number of waiting records."""
        return self._progress.pending_count(self._store.queue_bounds(*TIMER_QUEUE)[1])

    def is_pending(self, queue_offset: int) -> bool:
        """Whether the record at a queue offset waits."""
        return bool(self._progress.pending(np.array([queue_offset]))[0])

    def pending(self, rows: ParkedRows) -> ParkedRows:
        """Those of some records that wait."""
        return rows.take(self._progress.pending(rows.queue_offsets))

    def waiting_long(self, queue_offset: int, count: int) -> tuple[int, ParkedRows]:
        """As ``waiting``, without records that are due soon."""
        behind, rows = self.waiting(queue_offset, count)
        return behind, rows.take(rows.due_ms > self._now_ms() + WINDOW_MS)

    def waiting(self, queue_offset: int, count: int) -> tuple[int, ParkedRows]:
        """Records that wait.

        Args:
            queue_offset: Where to start.
            count: How many entries to look at.

        Returns:
            The queue offset behind the last one that was looked at, 0 when there is none; and them.
        """
        begin = max(queue_offset, self._progress.begin)
        rows = rows_from(self._store, TIMER_QUEUE, begin, count)
        if not len(rows):
            return 0, rows
        return int(rows.queue_offsets[-1]) + 1, self.pending(rows)

    # Serving.

    def parked(self, rows: ParkedRows) -> None:
        """Note records parked at the end of the queue; at least one."""
        self._wait(rows)
        self._end = int(rows.queue_offsets[-1]) + 1
        self._shrink()

    def take_due(self, count: int) -> ParkedRows:
        """Take out the next due records; those not marked must be given back."""
        return self.pending(self._window.take_due(self._now_ms(), count))

    def give_back(self, rows: ParkedRows) -> None:
        """Take back records that were taken out and not delivered."""
        self._wait(self.pending(rows))

    def _wait(self, rows: ParkedRows) -> None:
        """Keep records that are due soon, and of the others when their part of the queue is due."""
        near = rows.due_ms <= self._horizon_ms
        self._window.add(rows.take(near))
        self._remember(rows.take(~near))

    def rescan(self) -> None:
        """Forget the times from entries: some were wrong, and are repaired."""
        self._window = TimerWindow()
        self._horizon_ms = self._read_from_ms = _LONG_AGO
        self._reading.clear()
        self._earliest_ms.clear()
        self._scan()

    def next_due_ms(self) -> int | None:
        """When the first record in memory is due; None when there is none."""
        return self._window.next_due_ms

    def mark(self, queue_offsets: Int64s) -> None:
        """Mark records as done: delivered, or never to be."""
        self._progress.mark(queue_offsets)
        self.change_count += 1

    def refill(self) -> bool:
        """Read some more of what is due soon into memory; whether there is more to read."""
        if not self._reading:
            now_ms = self._now_ms()
            if self._horizon_ms >= now_ms + WINDOW_MS // 2:
                return False
            if len(self._window) > self._window_count_max // 2:
                return False  # First those that are in memory.
            self._read_from_ms, self._horizon_ms = self._horizon_ms, now_ms + WINDOW_MS
            self._read_end = self._end
            self._reading = sorted(
                (part for part, due_ms in self._earliest_ms.items() if due_ms <= self._horizon_ms),
                reverse=True,
            )
        if self._reading:
            self._read_part(self._reading[-1])
            self._reading.pop()
        return bool(self._reading)

    def _read_part(self, part: int) -> None:
        """Read a part of the queue; records parked since then are in memory already."""
        rows = self._rows_of_part(part)
        self._earliest_ms.pop(part, None)
        is_new = rows.due_ms > self._read_from_ms
        # A row without a time is in memory already, or its entry was damaged since: reading it asks
        # for a repair.
        untimed = ~is_new & (rows.due_ms < TIME_MS_MIN)
        if untimed.any():
            is_new |= untimed & ~self._window.holds(rows.queue_offsets)
        rows = rows.take(is_new)
        near = rows.due_ms <= self._horizon_ms
        self._window.add(rows.take(near & (rows.queue_offsets < self._read_end)))
        self._remember(rows.take(~near))
        self._shrink()

    def _rows_of_part(self, part: int) -> ParkedRows:
        """The records of a part that wait."""
        end = (part + 1) * SCAN_COUNT
        begin = max(part * SCAN_COUNT, self._progress.begin)
        rows = rows_from(self._store, TIMER_QUEUE, begin, end - begin)
        return self.pending(rows.take(rows.queue_offsets < end))

    def _shrink(self) -> None:
        """Drop the records that are due last if too many are in memory."""
        if len(self._window) <= 2 * self._window_count_max:
            return
        rows, horizon_ms = self._window.cut(self._window_count_max)
        if len(rows):
            self._horizon_ms = horizon_ms
            self._read_from_ms = min(self._read_from_ms, horizon_ms)
            self._remember(rows)

    def _remember(self, rows: ParkedRows) -> None:
        """Note the earliest time of each part that has some of the records."""
        if not len(rows):
            return
        parts, places = np.unique(rows.queue_offsets // SCAN_COUNT, return_inverse=True)
        earliest = np.full(len(parts), np.iinfo(np.int64).max)
        np.minimum.at(earliest, places, rows.due_ms)
        for part, due_ms in zip(parts.tolist(), earliest.tolist(), strict=True):
            self._earliest_ms[part] = min(due_ms, self._earliest_ms.get(part, due_ms))

    # State that is kept across restarts.

    def replay(self, stretch: Stretch) -> None:
        """Note deliveries that a stretch of the log shows."""
        self._origins.append(delivered_origins(stretch))
        self._takings.note(stretch)

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget deliveries of records behind the end of the queue."""
        self._progress.lower_end(end_of(TIMER_QUEUE))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:  # noqa: ARG002 - a message of a topic that does not stand is dropped when it is due.
        """All is replayed: see which records of the queue wait, and when each part is due."""
        origins = np.unique(np.concatenate([np.empty(0, np.int64), *self._origins]))
        self._origins.clear()
        mark_origins(self._store, TIMER_QUEUE, self._progress, origins)
        if self._takings:
            self._take_over()
        self._restored = True
        self._scan()
        self.change_count += 1

    def _scan(self) -> None:
        """Find out when each part of the queue is due."""
        self._end = self._progress.begin
        while len(rows := rows_from(self._store, TIMER_QUEUE, self._end, SCAN_COUNT)):
            self._remember(self.pending(rows))
            self._end = int(rows.queue_offsets[-1]) + 1

    def _take_over(self) -> None:
        """Mark what RocketMQ took out, if it has used the store since."""
        try:
            done = self._takings.of(self._store, TIMER_QUEUE, self._all_waiting())
        except QueueUnderRepair as error:
            _log.warning("timer_not_taken_over", reason=str(error), advice="may come twice")
            return
        finally:
            self._takings.clear()
        for queue_offsets in done:
            self._progress.mark(queue_offsets)
        _log.info("timer_taken_over", delivered=sum(map(len, done)))

    def _all_waiting(self) -> Iterator[ParkedRows]:
        """All waiting records, in the order of the queue; nothing is marked meanwhile."""
        queue_offset = self._progress.begin
        while len(rows := rows_from(self._store, TIMER_QUEUE, queue_offset, SCAN_COUNT)):
            yield self.pending(rows)
            queue_offset = int(rows.queue_offsets[-1]) + 1

    def hand_over(self) -> None:
        """Tell RocketMQ which records wait; all deliveries are on the disk.

        Blocks, in a thread; nothing is parked or delivered beside it.

        Raises:
            OSError: The disk failed, or is full: RocketMQ would deliver some messages again.
            QueueUnderRepair: An entry is wrong; the consequence is the same.
        """
        end = self._store.queue_bounds(*TIMER_QUEUE)[1]
        if not self._restored or not end:
            return
        parts = [part for rows in self._all_waiting() for part in self._timed(rows)]
        last = rows_from(self._store, TIMER_QUEUE, end - 1, 1)
        last = last.take(last.sizes > 0)
        self._handover.write(joined(parts), last, end, self._now_ms())

    def _timed(self, rows: ParkedRows) -> Iterator[ParkedRows]:
        """Waiting records with their times; RocketMQ's records have them as properties."""
        says = rows.due_ms >= TIME_MS_MIN
        yield rows.take(says & (rows.sizes > 0))
        rows = rows.take(~says)
        while len(rows):
            part = rows.take(slice(SLICE_COUNT)).within(SLICE_BYTES)
            rows = rows.take(slice(len(part), None))
            parked = read_parked(self._store, TIMER_QUEUE, part)
            if parked is None:
                continue
            found = part.take(np.isin(part.queue_offsets, parked.queue_offsets))
            order = np.argsort(parked.queue_offsets)
            found.due_ms[:] = parked.times_ms()[order]
            yield found.take(found.due_ms > 0)

    def clear(self) -> None:
        """Forget all deliveries."""
        self._progress = QueueProgress()
        self._origins.clear()
        self._takings.clear()

    def copied(self) -> Document:
        """Copy everything."""
        (marks,) = copied_marks([self._progress])

        def contents() -> dict[str, Any]:
            begin, *counted = encoded_marks(*marks)
            return {"queueOffset": begin, "marks": counted}

        return contents

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        count, encoded = contents["marks"]
        self._progress = QueueProgress.decoded(int(contents["queueOffset"]), int(count), encoded)
