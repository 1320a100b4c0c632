"""Batches of idempotent producers in the log.

The state of stored batches is rebuilt from the log. Only the first record of such a batch has the
property; it is the first of its properties, so one column of bytes is enough to find these records.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from ariane_record import ProducerSequence
from ariane_record.layout import PropertyName
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_record.single.producer_sequence import SEQUENCE_BYTES, SEQUENCE_PREFIX, decode_sequence
from ariane_storage.log.scan import Stretch

_PARKED: Final = frozenset({DELAY_TOPIC.encode(), TIMER_TOPIC.encode()})
_GOING: Final = re.compile(
    rf"{PropertyName.REAL_TOPIC}\x01([^\x02]+)\x02"
    rf"{PropertyName.REAL_QUEUE_ID}\x01([0-9]{{1,9}})\x02".encode()
)


class SequencedBatch(NamedTuple):
    """A batch in the log."""

    topic: str
    """The topic that it was sent to."""
    queue_id: int
    """The queue that it was sent to."""
    sequence: ProducerSequence
    """Its place in the stream of its producer."""
    record_count: int
    """The number of its records."""
    first_queue_offset: int
    """Queue offset of its first record, in the queue where it is stored."""
    commit_log_offset: int
    """Its start."""
    next_commit_log_offset: int
    """Its end."""
    store_timestamp_ms: int
    """When it was stored."""


def sequenced_batches(stretch: Stretch) -> list[SequencedBatch]:
    """The batches that begin in a stretch, in the order of the log."""
    places = stretch.places
    begins = places.properties_starts
    roomy = places.ends - begins >= SEQUENCE_BYTES
    rows = np.flatnonzero(places.with_text(SEQUENCE_PREFIX, begins, roomy))
    if not len(rows):
        return []
    starts = begins[rows]
    values = places.texts(starts, starts + SEQUENCE_BYTES)
    topics = places.texts(places.topic_starts[rows], places.topic_ends[rows])
    properties = places.texts(starts + SEQUENCE_BYTES, places.ends[rows])
    queue_ids = places.front("queue_id")[rows].tolist()
    columns = zip(
        map(decode_sequence, values),
        map(_queue_of, topics, queue_ids, properties),
        places.front("queue_offset")[rows].tolist(),
        stretch.commit_log_offsets[rows].tolist(),
        places.store_timestamps()[rows].tolist(),
        strict=True,
    )
    return [
        SequencedBatch(
            topic=topic,
            queue_id=queue_id,
            sequence=stored.sequence,
            record_count=stored.record_count,
            first_queue_offset=queue_offset,
            commit_log_offset=begin,
            next_commit_log_offset=begin + stored.size_bytes,
            store_timestamp_ms=timestamp_ms,
        )
        for stored, (topic, queue_id), queue_offset, begin, timestamp_ms in columns
        if stored is not None
    ]


def _queue_of(topic: bytes, queue_id: int, properties: bytes) -> tuple[str, int]:
    """The queue to which the producer sent a batch; a parked one has it in its first properties."""
    if topic in _PARKED:
        going = _GOING.match(properties)
        if going is not None:
            return going[1].decode(errors="replace"), int(going[2])
    return topic.decode(errors="replace"), queue_id
