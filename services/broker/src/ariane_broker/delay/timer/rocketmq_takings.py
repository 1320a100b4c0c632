"""What RocketMQ took out of the timer topic, by the log alone.

RocketMQ's records do not name the parked record that they take out, as ours do. But they are copies
of it: same topic, unique id, born time and body. Two kinds take one out, and RocketMQ sets the
property that tells them apart::

    TIMER_DEQUEUE_MS     the delivered message, or a copy in the timer topic that waits further
    TIMER_DEL_UNIQKEY    in the timer topic: the note of a recall, <topic>+<unique id>

Its files (``timer_handover``) say less, and nothing protects them: one flipped bit in
``timercheck`` moves the time up to which all is delivered. So they are written and never read. In
doubt, such as a message that RocketMQ gave up and left no record of, a message is delivered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parked.parked_records import ParkedRecords, read_parked
from ariane_broker.log.derived.log_rows import records_where
from ariane_broker.queue_key import QueueKey
from ariane_record.layout import PropertyName
from ariane_record.names import TIMER_TOPIC
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.store import Store

_TAKING: Final = re.compile(
    f"(?:{PropertyName.TIMER_DEQUEUE_MS}|{PropertyName.RECALLED_KEY})\x01".encode()
)
_READ_COUNT: Final = 512
_READ_BYTES: Final = 4 << 20


class RocketmqTakings:
    """Marks of parked records that RocketMQ took out."""

    def __init__(self) -> None:
        # One for each record that was taken out: of several that are alike, so many are gone.
        self._dequeued: list[Int64s] = []
        # Each stands for all messages of its unique id, as for RocketMQ.
        self._recalled: set[str] = set()

    def __bool__(self) -> bool:
        """Whether RocketMQ took out anything."""
        return bool(self._dequeued or self._recalled)

    def note(self, stretch: Stretch) -> None:
        """Note what a stretch of the log shows."""
        places = stretch.places
        if not _TAKING.search(places.buffer):
            return  # As in nearly every stretch: RocketMQ was not here.
        texts = places.texts(places.properties_starts, places.ends)
        is_taking = np.fromiter(map(bool, map(_TAKING.search, texts)), np.bool_)
        crcs = places.front("body_crc")[is_taking].tolist()
        marks: list[int] = []
        for record, crc in zip(records_where(stretch, is_taking), crcs, strict=True):
            properties = record.properties
            if record.half_offset:
                continue  # Ours, which names what it takes out.
            if record.topic == TIMER_TOPIC and PropertyName.RECALLED_KEY in properties:
                self._recalled.add(properties[PropertyName.RECALLED_KEY])
            elif PropertyName.TIMER_DEQUEUE_MS in properties:
                topic = properties.get(PropertyName.REAL_TOPIC, record.topic)
                unique_id = properties.get(PropertyName.UNIQUE_ID, "")
                marks.append(_mark(topic, unique_id, record.born_timestamp_ms, crc))
        if marks:
            self._dequeued.append(np.array(marks, np.int64))

    def of(self, store: Store, queue: QueueKey, rows: Iterable[ParkedRows]) -> list[Int64s]:
        """The queue offsets of those of some waiting records that were taken out.

        Args:
            store: The store.
            queue: The queue of the records.
            rows: The records, in the order of the queue.

        Raises:
            QueueUnderRepair: An entry points to a wrong place.
        """
        all_marks = np.concatenate([np.empty(0, np.int64), *self._dequeued])
        marks, counts = np.unique(all_marks, return_counts=True)
        done = []
        for some in rows:
            rest = some.take(some.sizes > 0)
            while len(rest):
                part = rest.take(slice(_READ_COUNT)).within(_READ_BYTES)
                rest = rest.take(slice(len(part), None))
                parked = read_parked(store, queue, part)
                if parked is not None:
                    taken = self._is_recalled(parked)
                    if len(marks):
                        taken |= _is_dequeued(parked, marks, counts)
                    taken[parked.notes()] = False
                    done.append(parked.queue_offsets[taken])
        return done

    def _is_recalled(self, parked: ParkedRecords) -> NDArray[np.bool_]:
        values = parked.moved.values
        pairs = zip(values(PropertyName.REAL_TOPIC), values(PropertyName.UNIQUE_ID), strict=True)
        keys = map("+".join, pairs)
        return np.fromiter(map(self._recalled.__contains__, keys), np.bool_)

    def clear(self) -> None:
        """Forget all."""
        self._dequeued.clear()
        self._recalled.clear()


def _is_dequeued(parked: ParkedRecords, marks: Int64s, counts: Int64s) -> NDArray[np.bool_]:
    """Those of some records that were taken out; lowers the counts of their marks."""
    moved, headers = parked.moved, parked.moved.columns.headers
    own = np.fromiter(
        map(
            _mark,
            moved.values(PropertyName.REAL_TOPIC),
            moved.values(PropertyName.UNIQUE_ID),
            headers["born_timestamp"].tolist(),
            headers["body_crc"].tolist(),
        ),
        np.int64,
        len(headers),
    )
    places = np.searchsorted(marks, own)
    places[places == len(marks)] = 0
    taken: NDArray[np.bool_] = marks[places] == own
    for row in np.flatnonzero(taken).tolist():
        taken[row] = counts[places[row]] > 0
        counts[places[row]] -= 1
    return taken


def _mark(topic: str, unique_id: str, born_ms: int, body_crc: int) -> int:
    """What a parked record has in common with RocketMQ's copy of it, as a number."""
    name = f"{topic}\x02{unique_id}\x02{born_ms} {body_crc}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), signed=True)
