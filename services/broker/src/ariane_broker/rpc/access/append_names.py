"""The topics of a request of AppendRecords, which our own decoder decodes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from ariane_broker.append.table_batches import TableBatches
from ariane_broker.rpc.translation.append_wire import AppendRequest


def topics_of_batches(request: AppendRequest) -> Sequence[str]:
    """Return the topics of batches that stand alone, and of a mixture."""
    batches = request.batches
    if isinstance(batches, TableBatches):
        return ()
    return [batch.topic for batch in batches]


def topics_of_table(request: AppendRequest) -> Sequence[str]:
    """Return the topics of a table."""
    batches = request.batches
    return batches.table.topics if isinstance(batches, TableBatches) else ()


APPEND_NAMES: Final = MappingProxyType(
    {"batches.topic": topics_of_batches, "table.topics": topics_of_table}
)
"""The extractors of AppendRecords, by the path in its rule."""
