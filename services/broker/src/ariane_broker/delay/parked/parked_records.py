"""Parked records: read by their entries; their properties name the destination."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.queue_key import QueueKey
from ariane_record.decoding.columns import decode_columns
from ariane_record.encoding.moved_records import MovedRecords
from ariane_record.layout import PropertyName
from ariane_record.names import RETRY_PREFIX, is_system_topic
from ariane_storage.log.records.fields import Int64s
from ariane_storage.store import Store

DELAY_PROPERTIES: Final = frozenset(
    {
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QUEUE_ID,
        PropertyName.DELAY_LEVEL,
        PropertyName.DELIVERY_TIME_MS,
        PropertyName.TIMER_OUT_MS,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SECONDS,
        PropertyName.RECALLED_KEY,
        PropertyName.PRODUCER_SEQUENCE,
    }
)
"""Properties of a parked record about its delivery; of these, a delivered record has at most the
time for which its producer had asked."""

_ROCKETMQ_PRECISION_MS: Final = 1000
_NOTE: Final = PropertyName.RECALLED_KEY.encode()
_DUE: Final = f"{PropertyName.DELIVERY_TIME_MS}\x01%b\x02".encode()
_TIMER_HEAD: Final = (
    f"{PropertyName.REAL_TOPIC}\x01%b\x02{PropertyName.REAL_QUEUE_ID}\x01%b\x02"
    f"{PropertyName.DELIVERY_TIME_MS}\x01%d\x02{PropertyName.TIMER_OUT_MS}\x01%d\x02"
).encode()


class ParkedRecords(NamedTuple):
    """Parked records of one queue, in the order of the log."""

    moved: MovedRecords
    """The records."""
    queue_offsets: Int64s
    """Queue offset of each."""
    due_ms: Int64s
    """When each is due, by its entry."""

    @property
    def ends(self) -> Int64s:
        """The end of each record in the commit log, which the record that takes it out names."""
        columns = self.moved.columns
        return columns.commit_log_offset + columns.sizes

    def notes(self) -> Int64s:
        """Which records are no messages, but notes of recalls."""
        if _NOTE not in self.moved.columns.records:
            return np.empty(0, np.int64)
        is_set = map(bool, self.moved.values(PropertyName.RECALLED_KEY))
        return np.flatnonzero(np.fromiter(is_set, np.bool_, len(self.queue_offsets)))

    def orphans(self, deleted_end: Callable[[str], int]) -> NDArray[np.bool_]:
        """Which records wait for a topic that was deleted since; another may have its name now.

        Copies that wait for a retry topic belong to the topic that they came from, too.

        Args:
            deleted_end: The commit-log offset below which records of a topic are deleted.
        """
        topics = self.moved.values(PropertyName.REAL_TOPIC)
        ends = {topic: int(deleted_end(topic)) for topic in set(topics)}
        if any(topic.startswith(RETRY_PREFIX) for topic in ends):
            origins = self.moved.values(PropertyName.RETRY_TOPIC)
            topics = [
                origin if origin and topic.startswith(RETRY_PREFIX) else topic
                for topic, origin in zip(topics, origins, strict=True)
            ]
            ends = {topic: int(deleted_end(topic)) for topic in set(topics)}
        gone = np.fromiter(map(ends.__getitem__, topics), np.int64, len(topics))
        orphans: NDArray[np.bool_] = self.moved.columns.commit_log_offset < gone
        return orphans

    def names(self, place: int) -> dict[str, object]:
        """What names one record in a line of the process's log, so that an operator finds it."""
        return {
            "topic": self.moved.values(PropertyName.REAL_TOPIC)[place],
            "unique_id": self.moved.values(PropertyName.UNIQUE_ID)[place],
            "commit_log_offset": int(self.moved.columns.commit_log_offset[place]),
        }

    def times_ms(self) -> Int64s:
        """When each record is due, by its own properties; 0 without such a property."""
        exact = self.moved.values(PropertyName.DELIVERY_TIME_MS)
        rough = self.moved.values(PropertyName.TIMER_OUT_MS)
        is_set = (one or other for one, other in zip(exact, rough, strict=True))
        times = (int(text) if text.isdecimal() and len(text) < 16 else 0 for text in is_set)
        return np.fromiter(times, np.int64, len(exact))

    def heads(self, places: Int64s) -> list[bytes]:
        """What some records have before their kept properties once delivered: their time, if any.

        Messages that a group consumes again have none: that time is not their producer's.
        """
        going = self.moved.values(PropertyName.REAL_TOPIC)
        times = self.moved.values(PropertyName.DELIVERY_TIME_MS)
        return [
            _DUE % times[place].encode()
            if times[place].isdecimal() and not is_system_topic(going[place])
            else b""
            for place in places.tolist()
        ]


def read_parked(store: Store, queue: QueueKey, rows: ParkedRows) -> ParkedRecords | None:
    """Read the records of some entries, without damaged or missing ones; None if none is left.

    Raises:
        QueueUnderRepair: An entry points to a wrong place; all entries of the queue are in doubt.
    """
    rows = rows.take(rows.sizes != 0)
    rows = rows.take(np.argsort(rows.commit_log_offsets, kind="stable"))
    records, sizes, queue_offsets = store.records_of(
        queue, rows.queue_offsets, rows.commit_log_offsets, rows.sizes
    )
    if len(queue_offsets) < len(rows):
        store.check_lost(queue, np.setdiff1d(rows.queue_offsets, queue_offsets))
    if not len(queue_offsets):
        return None
    columns = decode_columns(records, sizes.astype(np.int32))
    due_ms = rows.due_ms[np.searchsorted(rows.queue_offsets, queue_offsets)]
    return ParkedRecords(MovedRecords(columns, dropped=DELAY_PROPERTIES), queue_offsets, due_ms)


def timer_heads(
    topics: Iterable[bytes], queue_ids: Iterable[bytes], times_ms: Int64s
) -> list[bytes]:
    """The bytes before the properties of a record in the timer topic."""
    # RocketMQ looks once a second for records that are due before the next look.
    outs_ms = (times_ms - 1) // _ROCKETMQ_PRECISION_MS * _ROCKETMQ_PRECISION_MS
    columns = zip(topics, queue_ids, times_ms.tolist(), outs_ms.tolist(), strict=False)
    return list(map(_TIMER_HEAD.__mod__, columns))
