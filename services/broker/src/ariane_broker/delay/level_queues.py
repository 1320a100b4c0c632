"""The delay levels: a queue for each, in which every record waits as long as every other.

What comes first in such a queue is due first, so a queue offset for each level says how far its
messages are delivered. RocketMQ keeps just that, in ``config/delayOffset.json``::

    {"offsetTable": {"1": 120, "2": 7}, "commitLogOffset": 52428800, "marks": {}, ...}

A level whose wait the table of levels does not say any more is delivered nevertheless.

What was parked while the clock was ahead is due too late once it is right again, and everything
behind it with it. So nothing waits longer than its level from when the broker first saw it.
RocketMQ delivers what is due later than that at once; here it waits its time, and is not early.

Ours says besides which part of the log it knows of. What was delivered after that follows from the
log, so that a broker that is killed delivers nothing twice. RocketMQ skips what it does not know,
and begins with those offsets; a file that RocketMQ has written is believed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ariane_broker.delay.level_table import LEVEL_COUNT_MAX
from ariane_broker.delay.parked.delivered_origins import delivered_origins
from ariane_broker.delay.parked.parked_queue import (
    ParkedRows,
    mark_origins,
    needed_from,
    rows_from,
)
from ariane_broker.delay.parked.queue_progress import QueueProgress
from ariane_broker.queue_key import QueueKey
from ariane_record.names import DELAY_TOPIC
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.store import Store

FILE_NAME: Final = "config/delayOffset.json"


class Bound(NamedTuple):
    """When the records of a level are due at the latest that were seen at some moment.

    Attributes:
        end: Behind the last one that was seen, as a queue offset.
        due_ms: Then.
    """

    end: int
    due_ms: int


class LevelQueues:
    """The queues of all levels, and how far each is delivered.

    Attributes:
        name: What is kept here, for the log of the process.
        change_count: Grows with every change.
        matters_since_ms: All that the log has may matter.
    """

    name: Final = "delay levels"
    matters_since_ms: Final = None

    def __init__(
        self, log: Store, *, levels_ms: tuple[int, ...], now_ms: Callable[[], int]
    ) -> None:
        """Know of nothing delivered.

        Args:
            log: The store.
            levels_ms: How long each level waits, level 1 first; others than these may have messages
                that wait.
            now_ms: Milliseconds since the epoch.
        """
        self._log = log
        self._now_ms = now_ms
        self._levels_ms = levels_ms
        self._level_count = len(levels_ms)
        self._bounds: dict[int, list[Bound]] = {}
        self._progress: dict[int, QueueProgress] = {}
        self._origins: list[Int64s] = []
        self.change_count = 0
        self.clear()

    def due(self, level: int, count: int) -> ParkedRows:
        """Records of a level that are due, the oldest first.

        Args:
            level: The level.
            count: How many entries of its queue are looked at.
        """
        progress = self._progress[level]
        rows = self._rows(level, count)
        waits = rows.due_ms > self._now_ms()
        behind = int(np.argmax(waits)) if waits.any() else len(rows)
        rows = rows.take(slice(behind))
        return rows.take(progress.pending(rows.queue_offsets))

    def pending_of(self, level: int) -> tuple[int, int | None]:
        """How many records of a level wait, and when the first is due; None when none does."""
        progress = self._progress[level]
        count = progress.pending_count(self._log.queue_bounds(*queue_of(level))[1])
        first = self._rows(level, 1)
        return count, int(first.due_ms[0]) if len(first) else None

    def next_due_ms(self) -> int | None:
        """When the next record of any level is due; None when none waits."""
        queues = [self._rows(level, 1) for level in self._progress]
        return min((int(rows.due_ms[0]) for rows in queues if len(rows)), default=None)

    def _rows(self, level: int, count: int) -> ParkedRows:
        """The first records of a level that wait, with when they are due."""
        begin = self._progress[level].begin
        rows = rows_from(self._log, queue_of(level), begin, count)
        if not len(rows):
            return rows
        latest_ms = self._now_ms() + self._wait_ms(level)
        bounds = [bound for bound in self._bounds.get(level, ()) if bound.end > begin]
        for bound in bounds:
            _lower(rows, bound)
        if int(rows.due_ms.max()) > latest_ms:
            bounds.append(Bound(self._log.queue_bounds(*queue_of(level))[1], latest_ms))
            _lower(rows, bounds[-1])
        self._bounds[level] = bounds
        return rows

    def _wait_ms(self, level: int) -> int:
        """How long a record of a level waits at most; of one that is gone nobody knows better."""
        if level <= self._level_count:
            return self._levels_ms[level - 1]
        return max(*self._levels_ms, *DELAY_LEVELS_MS)

    @property
    def needed_from(self) -> int | None:
        """The commit-log offset of the oldest record that waits; None when none does."""
        found = (
            needed_from(self._log, queue_of(level), progress.begin)
            for level, progress in self._progress.items()
        )
        return min((place for place in found if place is not None), default=None)

    @property
    def levels(self) -> list[int]:
        """All levels: those that there are now, and those that may have messages from before."""
        return sorted(self._progress)

    def mark(self, level: int, queue_offsets: Int64s) -> None:
        """Records of a level are delivered, or will never be."""
        self._progress[level].mark(queue_offsets)
        self.change_count += 1

    # State that is kept across restarts.

    def replay(self, stretch: Stretch) -> None:
        """Take over what a stretch of the log says was delivered."""
        self._origins.append(delivered_origins(stretch))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:  # noqa: ARG002 - a message of a topic that does not stand is dropped when it is due.
        """All is replayed: see which records of the queues were delivered."""
        origins = np.unique(np.concatenate([np.empty(0, np.int64), *self._origins]))
        self._origins.clear()
        for level in range(self._level_count + 1, LEVEL_COUNT_MAX + 1):
            begin, end = self._log.queue_bounds(*queue_of(level))
            if begin < end:
                self._progress.setdefault(level, QueueProgress())
        for level, progress in self._progress.items():
            mark_origins(self._log, queue_of(level), progress, origins)
        self.change_count += 1

    def clear(self) -> None:
        """Know of nothing delivered."""
        self._progress = self._fresh()
        self._origins.clear()

    def document(self, commit_log_offset: int) -> dict[str, Any]:
        """Everything as JSON: RocketMQ's fields, and ours, which RocketMQ ignores."""
        progress = self._progress
        return {
            "dataVersion": {
                "counter": self.change_count,
                "stateVersion": 0,
                "timestamp": self._now_ms(),
            },
            "offsetTable": {str(level): queue.begin for level, queue in progress.items()},
            "commitLogOffset": commit_log_offset,
            "marks": {
                str(level): [queue.begin, queue.mark_count, queue.encoded_marks()]
                for level, queue in progress.items()
                if queue.mark_count
            },
        }

    def load(self, document: Mapping[str, Any]) -> int:
        """Take over a document, ours or RocketMQ's.

        Returns:
            Its commit-log offset; 0 for one of RocketMQ's, which knows of none.

        Raises:
            ValueError: It is none of either.
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
        return int(document.get("commitLogOffset", 0))

    def _fresh(self) -> dict[int, QueueProgress]:
        return {level: QueueProgress() for level in range(1, self._level_count + 1)}


def _lower(rows: ParkedRows, bound: Bound) -> None:
    """Lower the due times of records to the latest time that their bound allows."""
    seen = rows.queue_offsets < bound.end
    rows.due_ms[seen] = np.minimum(rows.due_ms[seen], bound.due_ms)


def queue_of(level: int) -> QueueKey:
    """The queue of a level."""
    return QueueKey(DELAY_TOPIC, level - 1)
