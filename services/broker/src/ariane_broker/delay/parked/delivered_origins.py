"""Finds in the log which parked records were delivered.

Three kinds of records take a parked record out of its queue: the delivered message, the note of a
recall, and a later copy in the log. Each names in its header where the parked record ended, in the
field that in records of transactions holds the offset of the half message. A producer cannot forge
it: the broker refuses records of producers in which it is not zero.

Records of transactions use that field for offsets that never are such an end: committed messages
have a flag, records in the topics below are skipped, and messages of a batch name a place inside a
record, where none ends.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane_record.layout import TRANSACTION_MASK
from ariane_record.names import CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC, OP_TOPIC
from ariane_storage.log.records.fields import FieldColumn, Int64s
from ariane_storage.log.scan import Stretch

_HALF_OFFSET_BEFORE_BODY: Final = 12
_OF_TRANSACTIONS: Final = frozenset(map(str.encode, (CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC, OP_TOPIC)))


def delivered_origins(stretch: Stretch) -> Int64s:
    """The ends of the parked records that a stretch takes out, in the order of the log."""
    places = stretch.places
    field = FieldColumn(places.buffer, ">i8", places.body_starts - _HALF_OFFSET_BEFORE_BODY, 0)
    ends = field.get().astype(np.int64)
    rows = np.flatnonzero((ends != 0) & (places.front("system_flag") & TRANSACTION_MASK == 0))
    if not len(rows):
        return ends[:0]
    topics = places.texts(places.topic_starts[rows], places.topic_ends[rows])
    ours = np.fromiter(map(_OF_TRANSACTIONS.isdisjoint, zip(topics, strict=True)), np.bool_)
    found: Int64s = ends[rows[ours]]
    return found
