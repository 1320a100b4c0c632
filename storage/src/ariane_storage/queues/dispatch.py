"""Building consume queues and index from records of the commit log.

Appends do this from the columns of a block; here it is done from the records alone, when a store is
opened after a crash, or when derived files are gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import PropertyName, SystemFlag
from ariane_record.checksums.java_hash import key_hashes
from ariane_record.layout import RECORD_BYTES_MIN, TRANSACTION_MASK
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_record.single.message import split_keys
from ariane_storage.index.index import PENDING_KEYS_MAX, Index
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.log.tag_check import tag_code_of
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import ENTRY, Entries
from ariane_storage.queues.queue_table import QueueTable, can_name_queue

_UNKNOWN_LEVEL_DELAY_MS: Final = 1000


def _value_of(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?:^|\x02)" + re.escape(name.encode()) + rb"\x01([^\x02]+)")


_KEYS: Final = _value_of(PropertyName.KEYS)
_TAG: Final = _value_of(PropertyName.TAGS)
_UNIQUE_ID: Final = _value_of(PropertyName.UNIQUE_ID)
_DELAY_LEVEL: Final = _value_of(PropertyName.DELAY_LEVEL)
_DELIVERY_TIME: Final = _value_of(PropertyName.DELIVERY_TIME_MS)


@dataclass(slots=True)
class Dispatcher:
    """Sends records of the log to where they are found again.

    Attributes:
        queues: All consume queues.
        index: The index.
        delay_levels_ms: Delay of each level, level 1 first.
        queues_from: Records below this commit-log offset are in the consume queues already.
        index_from: Records below it are in the index already.
        deleted_topics: Up to where records of topics are deleted: they get no entry.
        pending_keys_max: How many keys may wait to be filed.
        records: How many were looked at.
        misfits: Whole records that have no place in a queue, which other programs can have written:
            they stay in the log and in the index, and get no entry.
    """

    queues: QueueTable
    index: Index
    delay_levels_ms: tuple[int, ...]
    queues_from: int
    index_from: int
    deleted_topics: DeletedTopics
    pending_keys_max: int = PENDING_KEYS_MAX
    records: int = field(default=0, init=False)
    misfits: list[Damage] = field(default_factory=list, init=False)

    def dispatch(self, stretch: Stretch) -> None:
        """Send all records of a stretch.

        Raises:
            StoreFull: No space for another index file.
        """
        places = stretch.places
        self.records += len(places.starts)
        if stretch.end <= min(self.queues_from, self.index_from):
            return
        rows = Rows.of(stretch)
        groups = rows.groups()
        if self.queues_from < stretch.end:
            for (topic, queue_id), members in groups.items():
                begin = max(self.queues_from, self.deleted_topics.end_of(topic))
                chosen = _from(rows, members, begin)
                chosen = chosen[rows.has_entry[chosen]]
                if can_name_queue(topic, queue_id):
                    self._to_queue(topic, queue_id, rows, chosen)
                else:
                    self._leave_out(rows, chosen, DamageReason.QUEUE)
        if self.index_from < stretch.end:
            self._to_index(rows, groups)
        if self.index.pending_keys > self.pending_keys_max:
            self.index.settle()

    def _to_queue(self, topic: str, queue_id: int, rows: Rows, chosen: Int64s) -> None:
        if not len(chosen):
            return
        queue = self.queues.find_or_make(topic, queue_id)
        queue_offsets = rows.queue_offsets[chosen]
        breaks = np.flatnonzero(np.diff(queue_offsets) != 1) + 1
        runs = np.split(chosen, breaks)
        for run, following in zip_longest(runs, runs[1:]):
            if _is_misfit(queue, rows, run, following):
                self._leave_out(rows, run, DamageReason.QUEUE_OFFSET)
                continue
            self._make_room(queue, int(rows.queue_offsets[run[0]]))
            entries = rows.entries(run, self.delay_levels_ms)
            last = run[-1]
            self.queues.append(
                queue, entries, int(rows.commit_log_offsets[last] + rows.sizes[last])
            )

    def _make_room(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Let the next entry of a queue be that of a queue offset."""
        if queue.end_offset == 0:
            queue.start_at(queue_offset)
        elif queue_offset > queue.end_offset:
            # Messages in between are damaged or gone.
            with self.queues.lock:
                queue.skip_to(queue_offset)
        elif queue_offset < queue.end_offset:
            # The topic was deleted and made again: what the log says last is what holds.
            if queue_offset > queue.min_offset:
                queue.cut(queue_offset)
            else:
                queue.remove()
                queue.start_at(queue_offset)

    def _leave_out(self, rows: Rows, chosen: Int64s, reason: DamageReason) -> None:
        begins = rows.commit_log_offsets[chosen]
        ends = begins + rows.sizes[chosen]
        ranges = zip(begins.tolist(), ends.tolist(), strict=True)
        self.misfits += [Damage(begin, end, reason) for begin, end in ranges]

    def _to_index(self, rows: Rows, groups: dict[tuple[str, int], list[int]]) -> None:
        """File the keys of a stretch: hashed topic by topic, filed in the order of the log."""
        hashes: list[NDArray[np.int32]] = []
        owners: list[Int64s] = []
        for (topic, _), members in groups.items():
            chosen = _from(rows, members, self.index_from)
            keys_of_each = [
                _keys(rows.properties[row]) for row in chosen[rows.is_indexed[chosen]].tolist()
            ]
            keys = [key for keys in keys_of_each for key in keys]
            if keys:
                hashes.append(key_hashes(topic, keys))
                counts = [len(keys) for keys in keys_of_each]
                owners.append(np.repeat(chosen[rows.is_indexed[chosen]], counts))
        if owners:
            owner = np.concatenate(owners)
            order = np.argsort(owner, kind="stable")
            owner = owner[order]
            self.index.add(
                np.concatenate(hashes)[order],
                rows.commit_log_offsets[owner],
                rows.store_timestamps[owner],
            )


def _is_misfit(queue: ConsumeQueue, rows: Rows, run: Int64s, following: Int64s | None) -> bool:
    """Whether a run of records cannot have the queue offsets that it says.

    RocketMQ's own checksum covers the body alone, so that a flipped bit in a queue offset passes
    for a record. It must not cut the queue, nor fill it with holes without end.
    """
    expected, first = queue.end_offset, int(rows.queue_offsets[run[0]])
    if expected in {0, first}:
        return False
    next_first = -1 if following is None else int(rows.queue_offsets[following[0]])
    if len(run) == 1 and next_first == expected + 1:
        return True  # The queue goes on as if this record had the number that is left out.
    if first > expected:
        passed = int(rows.commit_log_offsets[run[0]]) - queue.last_record_end
        return first - expected > passed // RECORD_BYTES_MIN
    # A topic that was deleted and made again begins at 0.
    return len(run) == 1 and following is None and first != 0


def _from(rows: Rows, members: list[int], commit_log_begin: int) -> Int64s:
    """Those of some rows that lie at or above an offset."""
    chosen = np.array(members, np.int64)
    return chosen[rows.commit_log_offsets[chosen] >= commit_log_begin]


@dataclass(frozen=True, slots=True)
class Rows:
    """What dispatch needs of each record of a stretch, by column.

    Attributes:
        topics: Topic of each record.
        queue_ids: Queue of each.
        properties: Properties of each, encoded.
        queue_offsets: Queue offset of each.
        commit_log_offsets: Where each starts.
        sizes: Bytes of each.
        store_timestamps: When each was stored, in milliseconds.
        has_entry: Whether it has an entry in its consume queue.
        is_indexed: Whether its keys are in the index.
    """

    topics: list[bytes]
    queue_ids: list[int]
    properties: list[bytes]
    queue_offsets: Int64s
    commit_log_offsets: Int64s
    sizes: Int64s
    store_timestamps: Int64s
    has_entry: NDArray[np.bool_]
    is_indexed: NDArray[np.bool_]

    @classmethod
    def of(cls, stretch: Stretch) -> Rows:
        """The records of a stretch."""
        places = stretch.places
        flags = places.front("system_flag")
        transaction = flags & TRANSACTION_MASK
        rolled_back = transaction == SystemFlag.TRANSACTION_ROLLBACK
        # Inner batches are found through queues of another kind, which we do not keep.
        inner = (flags & SystemFlag.INNER_BATCH) != 0
        prepared = transaction == SystemFlag.TRANSACTION_PREPARED
        return cls(
            topics=places.texts(places.topic_starts, places.topic_ends),
            queue_ids=places.front("queue_id").tolist(),
            properties=places.texts(places.properties_starts, places.ends),
            queue_offsets=places.front("queue_offset"),
            commit_log_offsets=stretch.commit_log_offsets,
            sizes=places.ends - places.starts,
            store_timestamps=places.store_timestamps(),
            has_entry=~(prepared | rolled_back | inner),
            is_indexed=~rolled_back,
        )

    def entries(self, chosen: Int64s, delay_levels_ms: tuple[int, ...]) -> Entries:
        """Consume-queue entries of records of one topic."""
        entries = np.empty(len(chosen), ENTRY)
        entries["commit_log_offset"] = self.commit_log_offsets[chosen]
        entries["size"] = self.sizes[chosen]
        rows = chosen.tolist()
        if self.topics[rows[0]] == DELAY_TOPIC.encode():
            entries["tags_code"] = [self._delivery_time(row, delay_levels_ms) for row in rows]
        elif self.topics[rows[0]] == TIMER_TOPIC.encode():
            entries["tags_code"] = [_timer_time(self.properties[row]) for row in rows]
        else:
            entries["tags_code"] = self.tag_hashes(chosen)
        return entries

    def tag_hashes(self, chosen: Int64s) -> Int64s:
        """Hashes of the tags of some records; 0 where there is none."""
        return np.array([tag_code_of(self.properties[row]) for row in chosen.tolist()], np.int64)

    def _delivery_time(self, row: int, delay_levels_ms: tuple[int, ...]) -> int:
        """What the delay topic keeps in the place of a tag."""
        found = _DELAY_LEVEL.search(self.properties[row])
        if found is None:
            return tag_code_of(self.properties[row])
        level = int(found[1]) if found[1].isdigit() else 0
        return int(self.store_timestamps[row]) + delay_of(level, delay_levels_ms)

    def groups(self) -> dict[tuple[str, int], list[int]]:
        """Rows of each queue, in the order of the log."""
        groups: dict[tuple[bytes, int], list[int]] = {}
        for row, queue in enumerate(zip(self.topics, self.queue_ids, strict=True)):
            groups.setdefault(queue, []).append(row)
        return {
            (topic.decode(errors="replace"), queue_id): rows
            for (topic, queue_id), rows in groups.items()
        }


def delay_of(level: int, delay_levels_ms: tuple[int, ...]) -> int:
    """The delay of a level in milliseconds; above the highest level it is that of the highest."""
    if level <= 0 or not delay_levels_ms:
        return _UNKNOWN_LEVEL_DELAY_MS
    return delay_levels_ms[min(level, len(delay_levels_ms)) - 1]


def _timer_time(properties: bytes) -> int:
    """When a record of the timer topic is due; 0 for what is no message to deliver."""
    found = _DELIVERY_TIME.search(properties)
    return int(found[1]) if found is not None and found[1].isdigit() else 0


def _keys(properties: bytes) -> tuple[str, ...]:
    """Keys of a message as RocketMQ 5.5 files them: its unique id, each key, ``T#`` and its tag.

    Appends file no tags: our readers find them by the consume queues, and an item more for every
    message costs an append what only RocketMQ's own queries give back.
    """
    found: list[str] = []
    if unique_id := _UNIQUE_ID.search(properties):
        found.append(unique_id[1].decode(errors="replace"))
    if keys := _KEYS.search(properties):
        found += split_keys(keys[1].decode(errors="replace"))
    if tag := _TAG.search(properties):
        found.append("T#" + tag[1].decode(errors="replace"))
    return tuple(found)
