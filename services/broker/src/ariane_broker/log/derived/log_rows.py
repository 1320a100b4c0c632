"""The records of a stretch of the log that concern transactions, found by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordFields, SystemFlag, decode_record
from ariane_record.layout import TRANSACTION_MASK
from ariane_storage.log.records.fields import FieldColumn
from ariane_storage.log.scan import Stretch


def is_of_topic(stretch: Stretch, topic: str) -> NDArray[np.bool_]:
    """Whether records are of a topic: bool[count]."""
    places = stretch.places
    wanted = topic.encode()
    found: NDArray[np.bool_] = places.topic_ends - places.topic_starts == len(wanted)
    rows = np.flatnonzero(found)
    if len(rows):
        kind = f"V{len(wanted)}"
        names = FieldColumn(places.buffer, kind, places.topic_starts[rows], stride=0).get()
        found[rows] = names == np.frombuffer(wanted, kind)
    return found


def is_committed(stretch: Stretch) -> NDArray[np.bool_]:
    """Whether records are messages that a commit made visible: bool[count]."""
    flags = stretch.places.front("system_flag")
    committed: NDArray[np.bool_] = (flags & TRANSACTION_MASK) == SystemFlag.TRANSACTION_COMMIT
    return committed


def records_where(stretch: Stretch, wanted: NDArray[np.bool_]) -> Iterator[RecordFields]:
    """Decode the chosen records, in the order of the log."""
    places = stretch.places
    rows = np.flatnonzero(wanted)
    for start, end in zip(places.starts[rows].tolist(), places.ends[rows].tolist(), strict=True):
        yield decode_record(places.buffer[start:end], verify=False)
