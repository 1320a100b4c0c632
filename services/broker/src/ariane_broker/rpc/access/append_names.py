"""The topics of a request of AppendRecords, which our own decoder decodes."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from ariane_broker.rpc.translation.append_wire import AppendRequest


def topics_of_batches(request: AppendRequest) -> Collection[str]:
    """Return the topics of batches, each once."""
    if request.record_counts is not None:
        return ()
    return {topic for rows in request.tables for topic in rows.topics}


def topics_of_table(request: AppendRequest) -> Collection[str]:
    """Return the topics of a table, each once."""
    if request.record_counts is None:
        return ()
    (rows,) = request.tables
    return frozenset(rows.topics)


APPEND_NAMES: Final = MappingProxyType(
    {"batches.topic": topics_of_batches, "table.topics": topics_of_table}
)
"""The extractors of AppendRecords, by the path in its rule."""
