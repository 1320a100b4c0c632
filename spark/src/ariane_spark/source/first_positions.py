"""Start and end of a query: turns the user's rules into positions of existing queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.calls.cluster import Cluster
from ariane_spark.errors import NothingAtTime, QueueNotFound
from ariane_spark.positions.offsets import EARLIEST, LATEST, Bounds, Positions
from ariane_spark.positions.position_rules import (
    AtGroup,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    PositionRule,
)


def resolve(
    rule: PositionRule,
    bounds: Mapping[MessageQueue, Bounds],
    cluster: Cluster,
    *,
    unnamed: Edge,
) -> Positions:
    """The positions of a rule, one for each queue.

    Args:
        rule: The user's rule.
        bounds: All queues of the topics.
        cluster: Returns offsets by time, and offsets of groups.
        unnamed: The edge for queues that the user's offsets do not name.

    Raises:
        QueueNotFound: The user's offsets name a queue that does not exist.
        NothingAtTime: A queue has no message at or after its time, and the rule is strict.
    """
    match rule:
        case Edge():
            return {queue: edge_of(kept, rule) for queue, kept in bounds.items()}
        case AtTime(timestamp_ms, strict):
            return _at_times(dict.fromkeys(bounds, timestamp_ms), bounds, cluster, strict=strict)
        case AtTimes(timestamps_ms, strict):
            _check_known(timestamps_ms, bounds)
            found = _at_times(timestamps_ms, bounds, cluster, strict=strict)
            return {q: found.get(q, edge_of(kept, unnamed)) for q, kept in bounds.items()}
        case AtOffsets(positions):
            _check_known(positions, bounds)
            return {
                queue: _at(positions[queue], kept) if queue in positions else edge_of(kept, unnamed)
                for queue, kept in bounds.items()
            }
        case AtGroup(group, otherwise):
            stored = cluster.group_offsets(group, bounds)
            rest = {queue: kept for queue, kept in bounds.items() if queue not in stored}
            return stored | resolve(otherwise, rest, cluster, unnamed=unnamed)


def bounds_around(
    positions: Iterable[Positions],
    bounds: Mapping[MessageQueue, Bounds],
    ask_again: Callable[[], Mapping[MessageQueue, Bounds]],
) -> dict[MessageQueue, Bounds]:
    """The bounds by which positions are judged: newer ones, if some position is beyond these.

    Positions of times and groups are asked for after the bounds; a busy queue has grown meanwhile.

    Args:
        positions: The positions, each for all queues of the bounds.
        bounds: The bounds from which the positions follow.
        ask_again: Returns the present bounds.
    """
    if all(each[queue] <= kept.latest for each in positions for queue, kept in bounds.items()):
        return dict(bounds)
    now = ask_again()
    # Whether retention has passed a position meanwhile, tasks report.
    return {
        queue: now[queue]._replace(earliest=kept.earliest) if queue in now else kept
        for queue, kept in bounds.items()
    }


def edge_of(kept: Bounds, edge: Edge) -> QueueOffset:
    """The queue offset at one end of the kept range."""
    return kept.earliest if edge is Edge.EARLIEST else kept.latest


def _at(queue_offset: QueueOffset, kept: Bounds) -> QueueOffset:
    if queue_offset == EARLIEST:
        return kept.earliest
    return kept.latest if queue_offset == LATEST else queue_offset


def _at_times(
    timestamps_ms: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, Bounds],
    cluster: Cluster,
    *,
    strict: bool,
) -> Positions:
    """For each queue the first message stored at or after its time, or else its end."""
    found = _found_at(timestamps_ms, bounds, cluster)
    if strict and _without_message(found, bounds):
        # Of a busy queue, what was found may have been stored since its end was asked for.
        now = cluster.bounds(sorted({queue.topic for queue in found}), lenient=True)
        found = _found_at(timestamps_ms, bounds, cluster)
        nothing = _without_message(found, {**bounds, **now})
        if nothing:
            raise NothingAtTime(
                f"{', '.join(nothing)}: no message was stored at or after the starting time; to"
                " start at the end, set 'startingOffsetsByTimestampStrategy' to 'latest'"
            )
    return found


def _found_at(
    timestamps_ms: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, Bounds],
    cluster: Cluster,
) -> Positions:
    topics_by_time: dict[int, set[str]] = {}
    for queue, timestamp_ms in timestamps_ms.items():
        topics_by_time.setdefault(timestamp_ms, set()).add(queue.topic)
    answers = {
        timestamp_ms: cluster.offsets_at(sorted(topics), timestamp_ms)
        for timestamp_ms, topics in topics_by_time.items()
    }
    return {
        # A queue that was created between the two requests has no older messages.
        queue: answers[timestamp_ms].get(queue, bounds[queue].earliest)
        for queue, timestamp_ms in timestamps_ms.items()
    }


def _without_message(found: Positions, bounds: Mapping[MessageQueue, Bounds]) -> list[str]:
    """Queues that ended, when they were asked for their ends, before what was found later."""
    return [str(queue) for queue in sorted(found) if found[queue] >= bounds[queue].latest]


def _check_known(positions: Iterable[MessageQueue], bounds: Mapping[MessageQueue, Bounds]) -> None:
    unknown = sorted(set(positions) - set(bounds))
    if unknown:
        known = ", ".join(map(str, sorted(bounds)))
        raise QueueNotFound(
            f"offsets are given for {', '.join(map(str, unknown))}, which no broker carries;"
            f" there are {known}"
        )
