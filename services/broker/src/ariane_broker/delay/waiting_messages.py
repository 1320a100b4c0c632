"""Single messages that wait for their time, for people and tools.

They are found where they wait, one queue after the other: first the timer's, then those of the
delay levels. These have no index by topic, so all that waits before is looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from ariane_broker.delay.lateness import TIME_MS_MIN
from ariane_broker.delay.level_queues import LevelQueues, queue_of
from ariane_broker.delay.parked.parked_records import ParkedRecords, read_parked
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE, TimerQueue
from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_record.layout import PropertyName
from ariane_record.single.message import split_keys
from ariane_storage.store import Store

LOOK_COUNT: Final = 1 << 14
"""Entries that are looked at in one go, delivered ones too."""

SLICE_COUNT: Final = 512
"""Waiting records that are read in one go."""

SLICE_BYTES: Final = 1 << 20
"""Bytes of them, and those of keys and tags with which a page ends."""

SLICES_MAX: Final = 32
"""How often a page looks further; it may end without a message."""


class Place(NamedTuple):
    """Where a waiting message is, or may be."""

    level: int
    """Its delay level; 0 in the queue of the timer."""
    queue_offset: int
    """Its queue offset there."""


FIRST: Final = Place(0, 0)


class WaitingMessage(NamedTuple):
    """A message that waits for its time."""

    place: Place
    """Where it waits."""
    due_ms: int
    """When it is due, milliseconds since the epoch."""
    store_timestamp_ms: int
    """When it was stored."""
    unique_id: str
    """The id that its producer gave it."""
    tag: str
    """Its tag."""
    keys: tuple[str, ...]
    """Its keys."""
    body_bytes: int
    """The stored size of its body."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingMessages:
    """Finds what waits of a topic."""

    levels: LevelQueues
    timer: TimerQueue
    store: Store
    cold_reads: ColdReads

    async def page(
        self, topic: str, begin: Place, count_max: int
    ) -> tuple[list[WaitingMessage], Place | None]:
        """Find some messages of a topic that wait.

        Args:
            topic: The topic that they go to.
            begin: Where to look first.
            count_max: At most so many.

        Returns:
            The messages, and where to go on; None when all was looked at.

        Raises:
            QueueUnderRepair: An entry is wrong, and will be right soon.
        """
        found: list[WaitingMessage] = []
        text_bytes = slices = 0
        for level in (0, *self.levels.levels):
            if level < begin.level:
                continue
            place: Place | None = begin if level == begin.level else Place(level, 0)
            while place is not None:
                if len(found) >= count_max or text_bytes >= SLICE_BYTES or slices >= SLICES_MAX:
                    return found, place
                look = partial(self._slice, place, topic, count_max - len(found))
                some, behind = await self.cold_reads.run(QUERIES, look)
                found, place = found + some, behind
                text_bytes += sum(len(each.tag) + sum(map(len, each.keys)) for each in some)
                slices += 1
                await asyncio.sleep(0)
        return found, None

    def _slice(
        self, place: Place, topic: str, count_max: int
    ) -> tuple[list[WaitingMessage], Place | None]:
        """Those of some records of one queue, and where to go on in it."""
        level, queue_offset = place
        if level:
            queue = queue_of(level)
            behind, rows = self.levels.waiting(level, queue_offset, LOOK_COUNT)
        else:
            queue = TIMER_QUEUE
            behind, rows = self.timer.waiting(queue_offset, LOOK_COUNT)
        if len(rows):
            part = rows.take(slice(SLICE_COUNT)).within(SLICE_BYTES)
            if len(part) < len(rows):
                rows, behind = part, int(part.queue_offsets[-1]) + 1
        records = read_parked(self.store, queue, rows) if len(rows) else None
        found = [] if records is None else self._of_topic(records, level, topic)
        if len(found) > count_max:
            found, behind = found[:count_max], found[count_max].place.queue_offset
        return found, Place(level, behind) if behind else None

    def _of_topic(self, records: ParkedRecords, level: int, topic: str) -> list[WaitingMessage]:
        moved, columns = records.moved, records.moved.columns
        going = np.array(moved.values(PropertyName.REAL_TOPIC), object) == topic
        if not going.any():
            return []
        due_ms, untimed = records.due_ms, records.due_ms < TIME_MS_MIN
        if untimed.any():  # RocketMQ's entries have no time; its records have.
            due_ms = np.where(untimed, records.times_ms(), due_ms)
        going &= ~records.orphans(self.store.deleted_end)
        going[records.notes()] = False
        stored_ms = columns.headers["store_timestamp"]
        unique_ids, tags, keys = map(
            moved.values, (PropertyName.UNIQUE_ID, PropertyName.TAGS, PropertyName.KEYS)
        )
        found = [
            WaitingMessage(
                Place(level, int(records.queue_offsets[at])),
                int(due_ms[at]),
                int(stored_ms[at]),
                unique_ids[at],
                tags[at],
                tuple(split_keys(keys[at])),
                int(columns.body_length[at]),
            )
            for at in np.flatnonzero(going).tolist()
        ]
        return sorted(found)
