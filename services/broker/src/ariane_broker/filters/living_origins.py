"""Leaves out of a retry topic what came from topics that were deleted since.

A copy in a retry topic names the topic that its message came from. Another topic may have that name
now: its consumers must not get messages of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_record.layout import PropertyName
from ariane_record.names import RETRY_PREFIX
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.reading.filter import Filter

LOOKS: Final = 1


class LivingOrigins:
    """A filter of copies whose origin was not deleted, and that another filter wants, too."""

    def __init__(self, deleted_ends: Mapping[str, int], wanted: Filter | None) -> None:
        """``deleted_ends`` are the commit-log offsets below which topics' records are deleted."""
        self._deleted_ends = deleted_ends
        self._wanted = wanted

    @property
    def looks_per_record(self) -> int:
        """As ``Filter``."""
        return LOOKS + (0 if self._wanted is None else self._wanted.looks_per_record)

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``: by the other filter."""
        if self._wanted is None:
            return np.ones(len(entries), np.bool_)
        return self._wanted.entries_mask(entries)

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """As ``Filter``: by the origin, and by the other filter."""
        living = ~of_deleted_origins(records, self._deleted_ends)
        if self._wanted is None or not self._wanted.looks_per_record:
            return living
        return living & self._wanted.records_mask(records)


def of_deleted_origins(
    records: RecordColumns, deleted_ends: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Which copies lie before the place at which the topic was deleted that they came from."""
    offsets = records.commit_log_offset
    deleted = np.zeros(len(records), np.bool_)
    if not deleted_ends or offsets.min() >= max(deleted_ends.values()):
        return deleted
    pairs = records.properties.pair_of_each_row(PropertyName.RETRY_TOPIC)
    named = np.flatnonzero(pairs >= 0)
    texts = records.properties.texts(pairs[named])
    ends = np.fromiter((deleted_ends.get(text, 0) for text in texts), np.int64, len(texts))
    deleted[named] = offsets[named] < ends
    return deleted


def living(topic: str, wanted: Filter | None, deleted_ends: Mapping[str, int]) -> Filter | None:
    """The filter of a topic, which has only copies of living topics if it is a retry topic."""
    if not deleted_ends or not topic.startswith(RETRY_PREFIX):
        return wanted
    return LivingOrigins(deleted_ends, wanted)
