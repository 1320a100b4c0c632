"""Filters for reads: by the tag code of the entry, and by the content of records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_storage.queues.consume_queue_entry import Entries


@dataclass(frozen=True, slots=True)
class Tagged:
    """Messages whose entry has one tag code."""

    code: int
    """The code."""
    looks_per_record: int = 0
    """None."""

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``."""
        mask: NDArray[np.bool_] = entries["tags_code"] == self.code
        return mask

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """Not called in tests."""
        raise AssertionError(f"{len(records)} records are none of a filter of entries")


@dataclass(frozen=True, slots=True)
class Saying:
    """Messages whose records fulfil a condition."""

    condition: Callable[[RecordColumns], NDArray[np.bool_]]
    """Returns whether records match."""
    looks_per_record: int = 1
    """One."""

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``: entries do not decide."""
        return np.ones(len(entries), np.bool_)

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """As ``Filter``."""
        return self.condition(records)
