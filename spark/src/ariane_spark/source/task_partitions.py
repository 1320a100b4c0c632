"""What tasks are given beside their ranges: by what they log in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ariane_spark.options.access_options import NO_ACCESS, JobAccess, rights_to_read
from ariane_spark.options.options import ReadOptions
from ariane_spark.positions.partitions import RangePartition


@dataclass(frozen=True)
class TaskPartition(RangePartition):
    """The work of one task, and by what it logs in."""

    access: JobAccess = NO_ACCESS


def task_partitions(
    planned: Iterable[RangePartition], access: JobAccess, topics: Iterable[str]
) -> list[TaskPartition]:
    """Planned partitions with what their tasks log in by, which is good for some topics.

    Raises:
        ArianeError: A file cannot be read.
        OptionIllegal: The same.
    """
    given = access.for_tasks(rights_to_read(topics))
    return [TaskPartition(each.ranges, given) for each in planned]


def task_options(options: ReadOptions, partition: TaskPartition) -> ReadOptions:
    """The options of the query as a task has them."""
    return replace(options, access=partition.access)
