"""Filters by a condition over properties."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import filter_expression_invalid
from ariane_record.decoding.columns import RecordColumns
from ariane_sql92 import Condition, ConditionInvalid, compile_condition
from ariane_storage.queues.consume_queue_entry import Entries

CONDITIONS_KEPT: Final = 1024


class SqlFilter:
    """A filter of messages whose properties fulfil a condition."""

    def __init__(self, condition: Condition) -> None:
        self.looks_per_record = condition.part_count
        """As many as the condition has parts; entries do not contain properties."""
        self._condition = condition

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``: all entries."""
        return np.ones(len(entries), np.bool_)

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """As ``Filter``: by the condition."""
        return self._condition.mask(records.properties)


@lru_cache(maxsize=CONDITIONS_KEPT)
def sql_filter(text: str) -> SqlFilter:
    """The filter of a condition; the same one as long as the condition is in use.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    try:
        return SqlFilter(compile_condition(text))
    except ConditionInvalid as error:
        raise filter_expression_invalid(text, error.position, error.reason) from error
