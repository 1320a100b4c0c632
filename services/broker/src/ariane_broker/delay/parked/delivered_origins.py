"""Which parked records were delivered, as the log says it.

Whatever takes a parked record out of its queue (the message delivered, the note that it was
recalled, its copy further behind in the log) says in its header where that record ended: in the
field that has the offset of the half message in the record of a transaction. A producer cannot
forge it, as the broker refuses records of producers in which it is not zero.

Records of transactions say something else there, and none of it is a mark: committed messages,
which have their flag; those of the topics below; and messages of a batch, parked ones too, which
name a place inside a record, where none ends.
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
    """The ends of the parked records that those of a stretch take out, in the order of the log."""
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
