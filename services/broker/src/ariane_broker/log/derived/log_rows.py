"""The records of a stretch of the log that concern a state, found by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordFields, SystemFlag, decode_record
from ariane_record.layout import TRANSACTION_MASK
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch


def is_of_topic(stretch: Stretch, topic: str) -> NDArray[np.bool_]:
    """Whether records are of a topic: bool[count]."""
    places, text = stretch.places, topic.encode()
    fit = places.topic_ends - places.topic_starts == len(text)
    return places.with_text(text, places.topic_starts, fit)


def text_begins(stretch: Stretch, begins: Int64s, prefix: str) -> NDArray[np.bool_]:
    """Where a text of each record, from ``begins`` on, begins with a prefix: bool[count]."""
    text = prefix.encode()
    return stretch.places.with_text(text, begins, stretch.places.ends - begins >= len(text))


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
