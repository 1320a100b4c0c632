"""What tasks are given beside their ranges: by what they log in, and how fast they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ariane_spark.options.access_options import NO_ACCESS, JobAccess, rights_to_read
from ariane_spark.options.options import ReadOptions
from ariane_spark.positions.partitions import RangePartition


@dataclass(frozen=True)
class TaskPartition(RangePartition):
    """The work of one task, and what goes with it."""

    access: JobAccess = NO_ACCESS
    """By what it logs in."""
    bytes_per_s: float | None = None
    """How fast it may read; ``None``: as fast as it goes."""


def task_partitions(
    planned: Sequence[RangePartition],
    options: ReadOptions,
    topics: Iterable[str],
    *,
    parallelism: int,
) -> list[TaskPartition]:
    """Planned partitions with what goes with them.

    Args:
        planned: The partitions.
        options: Of the query.
        topics: What tasks log in by is good for these.
        parallelism: How many tasks run at once.

    Raises:
        ArianeError: A file cannot be read.
        OptionIllegal: The same.
    """
    access = options.access.for_tasks(rights_to_read(topics))
    share = options.bytes_per_s and options.bytes_per_s / max(1, min(len(planned), parallelism))
    return [TaskPartition(each.ranges, access, share) for each in planned]


def task_options(options: ReadOptions, partition: TaskPartition) -> ReadOptions:
    """The options of the query as a task has them."""
    return replace(options, access=partition.access)
