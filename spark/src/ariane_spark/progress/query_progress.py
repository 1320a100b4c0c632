"""The progress of a streaming query in its queues, and its lag.

Spark's own progress has no such figures for a Python source; they are computed from the positions
in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ariane_sdk import MessageQueue
from ariane_spark.positions.offsets import Positions, begins_of, from_json


class SparkSourceProgress(Protocol):
    """The used part of Spark's ``SourceProgress``; offsets are JSON of any source."""

    @property
    def startOffset(self) -> str | None: ...  # noqa: D102, N802 - Spark's name.
    @property
    def endOffset(self) -> str | None: ...  # noqa: D102, N802 - Spark's name.
    @property
    def latestOffset(self) -> str | None: ...  # noqa: D102, N802 - Spark's name.
    @property
    def numInputRows(self) -> int: ...  # noqa: D102, N802 - Spark's name.


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The progress of one query after one micro-batch."""

    query: str
    """Its name, or else its id."""
    batch_id: int
    """Number of the micro-batch."""
    row_count: int
    """Rows that were read, after filters in the broker."""
    advance: Mapping[MessageQueue, int]
    """The number of messages by which each queue advanced, including filtered ones."""
    lags: Mapping[MessageQueue, int]
    """The messages of each queue that existed when the micro-batch was planned, and were not
    read."""

    @property
    def lag(self) -> int:
        """The number of messages of all queues that are not read yet."""
        return sum(self.lags.values())


def query_progress(
    query: str, batch_id: int, sources: Iterable[SparkSourceProgress]
) -> QueryProgress | None:
    """The progress of a query; None if it reads no queues.

    Args:
        query: Its name, or else its id.
        batch_id: Number of the micro-batch.
        sources: The sources in Spark's report; sources other than queues are skipped.
    """
    row_count = 0
    advance: dict[MessageQueue, int] = {}
    lags: dict[MessageQueue, int] = {}
    for source in sources:
        end = _positions(source.endOffset)
        if not end:
            continue
        latest = _positions(source.latestOffset)
        # Of queues that the micro-batch was the first to read, its end says where they begin; of
        # the first micro-batch, whose start Spark does not tell, the source does.
        begun = _positions(source.startOffset) or _begins(source.latestOffset)
        start = _begins(source.endOffset) | begun
        row_count += source.numInputRows
        for queue, position in end.items():
            advance[queue] = max(0, position - start.get(queue, position))
            lags[queue] = max(0, latest.get(queue, position) - position)
    return QueryProgress(query, batch_id, row_count, advance, lags) if lags else None


def _begins(offsets: str | None) -> Positions:
    """Where queues begin, as a source reports it; nowhere if the positions are of another kind."""
    return begins_of(json.loads(offsets)) if offsets and _positions(offsets) else {}


def _positions(offsets: str | None) -> Positions:
    """The positions that a source reports; none if they are of another kind."""
    try:
        nested = json.loads(offsets or "null")
        return from_json(nested) if nested else {}
    except (ValueError, RecursionError):
        return {}
