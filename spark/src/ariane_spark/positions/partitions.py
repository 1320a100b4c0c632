"""Dividing ranges of queues into Spark partitions: large ranges are split, small ones are packed.

A task costs about 26 ms independent of what it reads, so one task for each queue is wrong for a
topic with many queues, and so is one for a few messages. A task reads its queues one after the
other, so one task for everything is wrong too. Planning uses only ranges and limits: a replayed
batch is planned from Spark's log alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from pyspark.sql.datasource import InputPartition

from ariane_spark.positions.ranges import QueueRange

PARTITION_RECORDS: Final = 250_000
"""Records that make one task worth its overhead: about a third of a second of reading."""

TASK_RECORDS: Final = 100
"""So many records more are worth another task that runs at the same time, whatever is done with
each: the overhead of a task is a quarter of a millisecond for each of them."""


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The work of one task: some ranges, each queue in order."""

    ranges: tuple[QueueRange, ...]

    @property
    def count(self) -> int:
        """The number of messages."""
        return sum(part.count for part in self.ranges)


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """How ranges become partitions."""

    partitions_min: int | None = None
    """The least number of partitions, if there are as many messages."""
    partitions_max: int | None = None
    """The most partitions."""
    records_max: int | None = None
    """The most messages of one queue in one range."""


def plan_partitions(
    ranges: Sequence[QueueRange], limits: PartitionLimits, *, parallelism: int
) -> list[RangePartition]:
    """The partitions that read these ranges, evenly loaded.

    Without limits there are as many as ``parallelism``, fewer for few messages, or more if that is
    worth it, but never more than ranges: the messages of one queue stay in one partition, in order.

    Args:
        ranges: The ranges; none empty, none overlapping.
        limits: The user's limits.
        parallelism: The number of concurrent tasks, as far as known.
    """
    record_count = sum(part.count for part in ranges)
    at_once = min(parallelism, ceil(record_count / TASK_RECORDS))
    wanted = min(len(ranges), max(at_once, ceil(record_count / PARTITION_RECORDS)))
    wanted = max(wanted, limits.partitions_min or 0)
    if limits.records_max is not None:
        # A limit for a range is a limit for a task: full pieces are not joined again.
        wanted = max(wanted, ceil(record_count / limits.records_max))
    wanted = min(wanted, limits.partitions_max or wanted)
    pieces = split_ranges(ranges, wanted_count=wanted, records_max=limits.records_max)
    return pack_ranges(pieces, min(wanted, len(pieces)))


def split_ranges(
    ranges: Sequence[QueueRange], *, wanted_count: int, records_max: int | None
) -> list[QueueRange]:
    """Split ranges that are too large, or if there are too few.

    Args:
        ranges: The ranges to split; none empty.
        wanted_count: The least number of ranges, if there are as many messages.
        records_max: The most messages in a range; ``None``: any number.
    """
    shares = [1 if records_max is None else ceil(part.count / records_max) for part in ranges]
    missing = wanted_count - sum(shares)
    # The range with the largest pieces gets one more, again and again.
    sizes = [(-part.count / shares[at], at) for at, part in enumerate(ranges)]
    heapq.heapify(sizes)
    while missing > 0 and sizes:
        _, at = sizes[0]
        if shares[at] == ranges[at].count:
            heapq.heappop(sizes)
            continue
        shares[at] += 1
        missing -= 1
        heapq.heapreplace(sizes, (-ranges[at].count / shares[at], at))
    return [piece for at, part in enumerate(ranges) for piece in part.pieces(shares[at])]


def pack_ranges(ranges: Iterable[QueueRange], partition_count: int) -> list[RangePartition]:
    """Pack ranges into partitions: the largest first, each into the emptiest partition."""
    packs: list[list[QueueRange]] = [[] for _ in range(partition_count)]
    loads = [(0, at) for at in range(partition_count)]
    for part in sorted(ranges, key=lambda part: (-part.count, part)):
        load, at = loads[0]
        packs[at].append(part)
        heapq.heapreplace(loads, (load + part.count, at))
    return [RangePartition(_from_broker(turn, pack)) for turn, pack in enumerate(packs) if pack]


def _from_broker(turn: int, ranges: Sequence[QueueRange]) -> tuple[QueueRange, ...]:
    """Ranges in the order of their queues, but partitions begin with different brokers.

    Tasks that all read one broker first would have it do the work of all.
    """
    names = sorted({part.queue.broker_name for part in ranges})
    first = names[turn % len(names)]
    return tuple(sorted(ranges, key=lambda part: (part.queue.broker_name < first, part)))
