"""The columns of many records from which consume queues and index are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import PropertyName, SystemFlag
from ariane_record.layout import TRANSACTION_MASK
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_storage.index.record_keys import RecordKeys, joined, keys_of
from ariane_storage.log.records.fields import FieldColumn, Int64s
from ariane_storage.log.records.record_places import RecordPlaces
from ariane_storage.log.records.tag_check import tag_code_of, tag_codes_of
from ariane_storage.log.scan import Stretch
from ariane_storage.queues.consume_queue_entry import ENTRY, Entries

# As plain numbers: numpy takes three microseconds to see that a flag is one.
_PREPARED: Final = int(SystemFlag.TRANSACTION_PREPARED)
_ROLLBACK: Final = int(SystemFlag.TRANSACTION_ROLLBACK)
_INNER_BATCH: Final = int(SystemFlag.INNER_BATCH)

_UNKNOWN_LEVEL_DELAY_MS: Final = 1000

_LENGTHS_MAX: Final = 8
"""Up to this number of different lengths, properties are read by length, which is faster than in
their order. The records of a batch have one length, except the first, which also has a sequence."""

_DELAY_LEVEL: Final = re.compile(
    rb"(?:^|\x02)" + PropertyName.DELAY_LEVEL.encode() + rb"\x01([^\x02]+)"
)
_DELIVERY_TIME: Final = re.compile(
    rb"(?:^|\x02)" + PropertyName.DELIVERY_TIME_MS.encode() + rb"\x01([^\x02]+)"
)


@dataclass(frozen=True)
class Rows:
    """The columns of the records of one stretch that dispatch needs.

    Properties are searched in all records at once: one search per queue would cost as much each.
    """

    places: RecordPlaces
    """Positions of the parts of each."""
    queue_ids: Int64s
    """Queue of each."""
    queue_offsets: Int64s
    """Queue offset of each."""
    commit_log_offsets: Int64s
    """The start of each."""
    sizes: Int64s
    """Bytes of each."""
    store_timestamps: Int64s
    """When each was stored, in milliseconds."""
    has_entry: NDArray[np.bool_]
    """Whether it has an entry in its consume queue."""
    is_indexed: NDArray[np.bool_]
    """Whether its keys are in the index."""

    @classmethod
    def of(cls, stretch: Stretch) -> Rows:
        """The records of a stretch."""
        places = stretch.places
        flags = places.front("system_flag")
        transaction = flags & TRANSACTION_MASK
        rolled_back = transaction == _ROLLBACK
        # Inner batches are found through another kind of queue, which this store does not keep.
        inner = (flags & _INNER_BATCH) != 0
        prepared = transaction == _PREPARED
        return cls(
            places=places,
            queue_ids=places.front("queue_id"),
            queue_offsets=places.front("queue_offset"),
            commit_log_offsets=stretch.commit_log_offsets,
            sizes=places.ends - places.starts,
            store_timestamps=places.store_timestamps(),
            has_entry=~(prepared | rolled_back | inner),
            is_indexed=~rolled_back,
        )

    def groups(self) -> dict[tuple[str, int], Int64s]:
        """Rows of each queue, in the order of the log."""
        begins = self._begin_of_queue()
        topics = self.places.texts(self.places.topic_starts[begins], self.places.topic_ends[begins])
        queues = zip(topics, self.queue_ids[begins].tolist(), strict=True)
        numbers: dict[tuple[bytes, int], int] = {}
        number_of_run = [numbers.setdefault(queue, len(numbers)) for queue in queues]
        rows, edges = np.arange(len(self.sizes)), [*begins.tolist(), len(self.sizes)]
        if len(numbers) < len(number_of_run):
            counts = np.array(edges[1:]) - begins
            number_of_row = np.repeat(number_of_run, counts)
            rows = np.argsort(number_of_row, kind="stable")
            edges = [0, *np.cumsum(np.bincount(number_of_row)).tolist()]
        names = [(topic.decode(errors="replace"), queue_id) for topic, queue_id in numbers]
        members = map(rows.__getitem__, map(slice, edges, edges[1:]))
        return dict(zip(names, members, strict=True))

    def _begin_of_queue(self) -> Int64s:
        """Rows whose queue differs from that of the row before."""
        places = self.places
        lengths = places.topic_ends - places.topic_starts
        differs = np.ones(len(lengths), np.bool_)
        differs[1:] = self.queue_ids[1:] != self.queue_ids[:-1]
        differs[1:] |= lengths[1:] != lengths[:-1]
        for length in _distinct(lengths):
            rows = np.flatnonzero(lengths == length)
            if length and len(rows) > 1:
                starts = places.topic_starts[rows]
                topics = FieldColumn(places.buffer, f"V{length}", starts, 0).get()
                differs[rows[1:]] |= topics[1:] != topics[:-1]
        return np.flatnonzero(differs)

    def entries(self, chosen: Int64s, delay_levels_ms: tuple[int, ...]) -> Entries:
        """Consume-queue entries of records of one topic."""
        entries = np.empty(len(chosen), ENTRY)
        entries["commit_log_offset"] = self.commit_log_offsets[chosen]
        entries["size"] = self.sizes[chosen]
        first = int(chosen[0])
        topic = self.places.text(self.places.topic_starts, self.places.topic_ends, first)
        if topic == DELAY_TOPIC.encode():
            times = [self._delivery_time(row, delay_levels_ms) for row in chosen.tolist()]
            entries["tags_code"] = times
        elif topic == TIMER_TOPIC.encode():
            entries["tags_code"] = [_timer_time(self._properties(row)) for row in chosen.tolist()]
        else:
            entries["tags_code"] = self.tag_hashes(chosen)
        return entries

    def tag_hashes(self, chosen: Int64s) -> Int64s:
        """Hashes of the tags of some records; 0 for none."""
        return self._tag_hashes[chosen]

    @cached_property
    def _tag_hashes(self) -> Int64s:
        hashes = np.empty(len(self.sizes), np.int64)
        for members, encoded, lengths in self._lots:
            hashes[members] = tag_codes_of(encoded, lengths, len(members))
        return hashes

    def keys(self, wanted: NDArray[np.bool_]) -> RecordKeys:
        """Keys of the selected records; their owners are rows."""
        found = joined(
            [
                keys_of(encoded, lengths, len(members)).of(members)
                for members, encoded, lengths in self._lots
            ]
        )
        if bool(wanted.all()):
            return found
        is_wanted = wanted[found.owners]
        return RecordKeys(found.owners[is_wanted], found.words[is_wanted], found.lengths[is_wanted])

    @cached_property
    def _lots(self) -> list[tuple[Int64s, bytes, int | Int64s]]:
        """The properties in groups: rows, bytes, and lengths."""
        places = self.places
        starts, ends = places.properties_starts, places.ends
        lengths = ends - starts
        of_each = _distinct(lengths)
        if len(of_each) > _LENGTHS_MAX:
            encoded = b"".join(places.texts(starts, ends))
            return [(np.arange(len(lengths)), encoded, lengths)]
        lots: list[tuple[Int64s, bytes, int | Int64s]] = []
        for length in of_each:
            members = np.flatnonzero(lengths == length)
            if length:
                column = FieldColumn(places.buffer, f"V{length}", starts[members], 0)
                lots.append((members, column.get().tobytes(), length))
            else:
                lots.append((members, b"", 0))
        return lots

    def _properties(self, row: int) -> bytes:
        return self.places.text(self.places.properties_starts, self.places.ends, row)

    def _delivery_time(self, row: int, delay_levels_ms: tuple[int, ...]) -> int:
        """The delivery time that the delay topic has in place of a tag."""
        properties = self._properties(row)
        found = _DELAY_LEVEL.search(properties)
        if found is None:
            return tag_code_of(properties)
        level = int(found[1]) if found[1].isdigit() else 0
        return int(self.store_timestamps[row]) + delay_of(level, delay_levels_ms)


def _distinct(lengths: Int64s) -> list[int]:
    """The different lengths, ascending; found in a few steps if they are few."""
    found: list[int] = []
    rest = lengths
    while len(rest):
        if len(found) > _LENGTHS_MAX:
            return sorted({*found, *rest.tolist()})
        found.append(int(rest[0]))
        rest = rest[rest != found[-1]]
    return sorted(found)


def delay_of(level: int, delay_levels_ms: tuple[int, ...]) -> int:
    """The delay of a level in milliseconds; above the highest level that of the highest."""
    if level <= 0 or not delay_levels_ms:
        return _UNKNOWN_LEVEL_DELAY_MS
    return delay_levels_ms[min(level, len(delay_levels_ms)) - 1]


def _timer_time(properties: bytes) -> int:
    """When a record of the timer topic is due; 0 for a record that is not to be delivered."""
    found = _DELIVERY_TIME.search(properties)
    return int(found[1]) if found is not None and found[1].isdigit() else 0
