"""Where a query starts and ends: what the user said, made into positions of queues that exist."""

from __future__ import annotations

from collections.abc import Mapping

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.cluster import QueueCatalog
from ariane_spark.errors import QueueNotFound
from ariane_spark.offsets import EARLIEST, LATEST, Bounds, Positions
from ariane_spark.options import AtOffsets, AtTime, Edge, PositionRule


def resolve(
    rule: PositionRule,
    bounds: Mapping[MessageQueue, Bounds],
    catalog: QueueCatalog,
    *,
    unnamed: Edge,
) -> Positions:
    """The positions that a rule stands for, one for each queue.

    Args:
        rule: What the user said.
        bounds: All queues of the topics.
        catalog: Asked for offsets by time.
        unnamed: Where a queue stands that the user's offsets do not name.

    Raises:
        QueueNotFound: The user's offsets name a queue that does not exist.
    """
    match rule:
        case Edge():
            return {queue: edge_of(kept, rule) for queue, kept in bounds.items()}
        case AtTime(timestamp_ms):
            topics = sorted({queue.topic for queue in bounds})
            found = catalog.offsets_at(topics, timestamp_ms)
            # A queue that appeared in between the two questions has nothing older.
            return {queue: found.get(queue, kept.earliest) for queue, kept in bounds.items()}
        case AtOffsets(positions):
            _check_known(positions, bounds)
            return {
                queue: _at(positions[queue], kept) if queue in positions else edge_of(kept, unnamed)
                for queue, kept in bounds.items()
            }


def edge_of(kept: Bounds, edge: Edge) -> QueueOffset:
    """The queue offset at one end of what is kept."""
    return kept.earliest if edge is Edge.EARLIEST else kept.latest


def _at(queue_offset: QueueOffset, kept: Bounds) -> QueueOffset:
    if queue_offset == EARLIEST:
        return kept.earliest
    return kept.latest if queue_offset == LATEST else queue_offset


def _check_known(positions: Positions, bounds: Mapping[MessageQueue, Bounds]) -> None:
    unknown = sorted(set(positions) - set(bounds))
    if unknown:
        known = ", ".join(map(str, sorted(bounds)))
        raise QueueNotFound(
            f"offsets are given for {', '.join(map(str, unknown))}, which no broker carries;"
            f" there are {known}"
        )
