"""The delay levels: a queue for each, whose records all wait equally long.

The first record of such a queue is due first, so one queue offset for each level shows how far its
messages are delivered. RocketMQ keeps just that, in ``config/delayOffset.json``::

    {"offsetTable": {"1": 120, "2": 7}, "commitLogOffset": 52428800, "marks": {}, ...}

Records of a level that the table no longer has are delivered nevertheless.

A record that was parked while the clock was ahead is due too late once the clock is right again,
and it holds up all records behind it. So no record waits longer than its level from the time when
the broker first saw it. RocketMQ delivers such records at once; here they wait their time, and are
never early.

Our file also says which part of the log it covers. Later deliveries follow from the log, so that a
broker that is killed delivers nothing twice. RocketMQ skips the additional keys and begins with the
offsets.

A file that RocketMQ has written is used in the same way, but has no checksum, and what it knew may
have gone with the power. RocketMQ stores a copy of each record that it delivers, when that is due.
So what is due after the last record of the log was stored, it has not delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ariane_broker.delay.level_table import LEVEL_COUNT_MAX
from ariane_broker.delay.parked.delivered_origins import delivered_origins
from ariane_broker.delay.parked.parked_queue import (
    SCAN_COUNT,
    ParkedRows,
    mark_origins,
    needed_from,
    rows_from,
)
from ariane_broker.delay.parked.queue_progress import QueueProgress, copied_marks, encoded_marks
from ariane_broker.log.derived.snapshots import Document
from ariane_broker.queue_key import QueueKey
from ariane_record.counted import counted
from ariane_record.names import DELAY_TOPIC
from ariane_servicekit import get_logger
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.store import Store

FILE_NAME: Final = "config/delayOffset.json"

_log = get_logger(__name__)


class Bound(NamedTuple):
    """The latest time at which the records of a level seen at some moment are due."""

    end: int
    """Queue offset behind the last record seen."""
    due_ms: int
    """That time."""


class LevelQueues:
    """The queues of all levels, and how far each is delivered."""

    name: Final = "delay levels"
    """Name of this state in the process's log."""
    matters_since_ms: Final = None
    """None: any record of the log may matter."""

    def __init__(
        self, store: Store, *, levels_ms: tuple[int, ...], now_ms: Callable[[], int]
    ) -> None:
        """``levels_ms``: level 1 first; other levels may have waiting messages, too."""
        self._store = store
        self._now_ms = now_ms
        self._levels_ms = levels_ms
        self._level_count = len(levels_ms)
        self._bounds: dict[int, list[Bound]] = {}
        self._progress: dict[int, QueueProgress] = {}
        self._origins: list[Int64s] = []
        self._is_of_rocketmq = False
        self._last_stored_ms = 0
        self.change_count = 0
        """Grows with every change."""
        self.clear()

    def due(self, level: int, count: int) -> ParkedRows:
        """Return due records of a level, oldest first.

        Args:
            level: The level.
            count: How many entries of its queue to look at.
        """
        progress = self._progress[level]
        rows = self._rows(level, count)
        if not len(rows):
            return rows
        waits = rows.due_ms > self._now_ms()
        behind = int(np.argmax(waits)) if waits.any() else len(rows)
        rows = rows.take(slice(behind))
        return rows.take(progress.pending(rows.queue_offsets))

    def waiting(self, level: int, queue_offset: int, count: int) -> tuple[int, ParkedRows]:
        """Records of a level that wait; arguments and result as of ``TimerQueue.waiting``."""
        progress = self._progress[level]
        rows = rows_from(self._store, queue_of(level), max(queue_offset, progress.begin), count)
        if not len(rows):
            return 0, rows
        for bound in self._bounds.get(level, ()):
            _lower(rows, bound)
        return int(rows.queue_offsets[-1]) + 1, rows.take(progress.pending(rows.queue_offsets))

    def pending_of(self, level: int) -> tuple[int, int | None]:
        """Number of waiting records of a level, and when the first is due; None if none waits."""
        progress = self._progress[level]
        count = progress.pending_count(self._store.queue_bounds(*queue_of(level))[1])
        first = self._rows(level, 1)
        return count, int(first.due_ms[0]) if len(first) else None

    def next_due_ms(self) -> int | None:
        """When the next record of any level is due; None if none waits."""
        queues = [self._rows(level, 1) for level in self.waiting_levels]
        return min((int(rows.due_ms[0]) for rows in queues if len(rows)), default=None)

    def _rows(self, level: int, count: int) -> ParkedRows:
        """The first waiting records of a level, with their due times."""
        begin = self._progress[level].begin
        rows = rows_from(self._store, queue_of(level), begin, count)
        if not len(rows):
            return rows
        latest_ms = self._now_ms() + self._wait_ms(level)
        bounds = [bound for bound in self._bounds.get(level, ()) if bound.end > begin]
        for bound in bounds:
            _lower(rows, bound)
        if int(rows.due_ms.max()) > latest_ms:
            bounds.append(Bound(self._store.queue_bounds(*queue_of(level))[1], latest_ms))
            _lower(rows, bounds[-1])
        self._bounds[level] = bounds
        return rows

    def _wait_ms(self, level: int) -> int:
        """The longest wait of a level's records; a level that is gone has no other bound."""
        if level <= self._level_count:
            return self._levels_ms[level - 1]
        return max(*self._levels_ms, *DELAY_LEVELS_MS)

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset of the oldest waiting record; None if none waits."""
        found = (
            needed_from(self._store, queue_of(level), progress.begin)
            for level, progress in self._progress.items()
        )
        return min((place for place in found if place is not None), default=None)

    @property
    def levels(self) -> list[int]:
        """All levels: the present ones, and earlier ones that may have messages."""
        return sorted(self._progress)

    @property
    def waiting_levels(self) -> list[int]:
        """The levels whose queues have more than what is done: mostly none, or few."""
        bounds = self._store.queue_bounds
        return [
            level
            for level in self.levels
            if self._progress[level].begin < bounds(*queue_of(level))[1]
        ]

    def mark(self, level: int, queue_offsets: Int64s) -> None:
        """Mark records of a level as done: delivered, or never to be."""
        self._progress[level].mark(queue_offsets)
        self.change_count += 1

    # State that is kept across restarts.

    def replay(self, stretch: Stretch) -> None:
        """Note deliveries that a stretch of the log shows."""
        self._origins.append(delivered_origins(stretch))
        stored_ms = int(stretch.places.store_timestamps().max())
        self._last_stored_ms = max(self._last_stored_ms, stored_ms)

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget deliveries of records behind the ends of their queues."""
        for level, progress in self._progress.items():
            progress.lower_end(end_of(queue_of(level)))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:  # noqa: ARG002 - a message of a topic that does not stand is dropped when it is due.
        """After the replay: find out which records of the queues were delivered."""
        origins = np.unique(np.concatenate([np.empty(0, np.int64), *self._origins]))
        self._origins.clear()
        for level in range(self._level_count + 1, LEVEL_COUNT_MAX + 1):
            begin, _ = self._store.queue_bounds(*queue_of(level))
            if begin < self._store.queue_end(*queue_of(level)):
                self._progress.setdefault(level, QueueProgress())
        if self._is_of_rocketmq:
            self._doubt_rocketmq()
            self._is_of_rocketmq = False
        for level, progress in self._progress.items():
            mark_origins(self._store, queue_of(level), progress, origins)
        self.change_count += 1

    def _doubt_rocketmq(self) -> None:
        """Let records wait that RocketMQ's file says are delivered, and that were not due."""
        for level, claimed in self._progress.items():
            queue, waiting = queue_of(level), 0
            queue_offset = int(self._store.queue_bounds(*queue)[0])
            progress = QueueProgress(queue_offset)
            while queue_offset < claimed.begin:
                count = min(SCAN_COUNT, claimed.begin - queue_offset)
                rows = rows_from(self._store, queue, queue_offset, count)
                if not len(rows):
                    break
                was_due = rows.due_ms <= self._last_stored_ms
                progress.mark(rows.queue_offsets[was_due])
                waiting += int(np.count_nonzero(~was_due))
                queue_offset = int(rows.queue_offsets[-1]) + 1
            if waiting:
                self._progress[level] = progress
                finding = (
                    f"{FILE_NAME} of RocketMQ counts {counted(waiting, 'message')} of level {level}"
                    " as delivered, but due only after the log ends: to be delivered when due"
                )
                _log.warning("state_finding", finding=finding)

    def clear(self) -> None:
        """Forget all deliveries."""
        self._progress = self._fresh()
        self._origins.clear()

    def snapshot(self, commit_log_offset: int) -> Document:
        """The content of the file: RocketMQ's fields, and ours, which RocketMQ ignores."""
        version = {"counter": self.change_count, "stateVersion": 0, "timestamp": self._now_ms()}
        progress = dict(zip(self._progress, copied_marks(self._progress.values()), strict=True))

        def document() -> dict[str, Any]:
            return {
                "dataVersion": version,
                "offsetTable": {str(level): begin for level, (begin, _) in progress.items()},
                "commitLogOffset": commit_log_offset,
                "marks": {
                    str(level): encoded_marks(begin, marks)
                    for level, (begin, marks) in progress.items()
                    if marks
                },
            }

        return document

    def load(self, document: Mapping[str, Any]) -> int:
        """Load a file, ours or RocketMQ's.

        Returns:
            Its commit-log offset; 0 for a file of RocketMQ, which has none.

        Raises:
            ValueError: The content is neither.
        """
        progress = self._fresh()
        for level, queue_offset in document["offsetTable"].items():
            if 1 <= int(level) <= LEVEL_COUNT_MAX:
                progress[int(level)] = QueueProgress(max(0, int(queue_offset)))
        for level, (begin, count, encoded) in document.get("marks", {}).items():
            queue = QueueProgress.decoded(begin, count, encoded)
            if int(level) in progress and progress[int(level)].begin == queue.begin:
                progress[int(level)] = queue
        self._progress = progress
        self._is_of_rocketmq = "commitLogOffset" not in document
        return int(document.get("commitLogOffset", 0))

    def _fresh(self) -> dict[int, QueueProgress]:
        return {level: QueueProgress() for level in range(1, self._level_count + 1)}


def _lower(rows: ParkedRows, bound: Bound) -> None:
    """Lower due times to the latest time that the bound allows."""
    seen = rows.queue_offsets < bound.end
    rows.due_ms[seen] = np.minimum(rows.due_ms[seen], bound.due_ms)


def queue_of(level: int) -> QueueKey:
    """The queue of a level."""
    return QueueKey(DELAY_TOPIC, level - 1)
