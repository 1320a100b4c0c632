"""Reads topics once, from a start to an end that are fixed when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.taskcontext import TaskContext

from ariane_sdk import MessageQueue
from ariane_spark.calls.cluster import Cluster, Connect
from ariane_spark.calls.connection import connect_once
from ariane_spark.calls.sink_batches import micro_batch_of_task
from ariane_spark.options.options import ReadOptions
from ariane_spark.options.write_options import MicroBatch
from ariane_spark.positions.offsets import Bounds, LogEpochs, Positions, epochs_of
from ariane_spark.positions.partitions import plan_partitions
from ariane_spark.positions.position_rules import Edge
from ariane_spark.positions.ranges import ranges_between
from ariane_spark.records.columns import Projection
from ariane_spark.source.data_loss import DataLossPolicy, warn_of_missing_brokers
from ariane_spark.source.first_positions import bounds_around, resolve
from ariane_spark.source.pace import Pace
from ariane_spark.source.parallelism import cluster_parallelism
from ariane_spark.source.range_reader import RangeReader
from ariane_spark.source.task_partitions import TaskPartition, task_options, task_partitions

if TYPE_CHECKING:
    import pyarrow as pa

_log: Final = logging.getLogger(__name__)


class ArianeBatchReader(DataSourceReader):
    """One read of one or several topics.

    The object is sent from the planner to the tasks, so it holds the request and no connection.
    """

    def __init__(
        self, options: ReadOptions, projection: Projection, connect: Connect = connect_once
    ) -> None:
        self._options = options
        self._projection = projection
        self._connect = connect
        self._plan_id = uuid4().hex  # The planner makes one of these for each plan.

    def partitions(self) -> list[InputPartition]:
        """The partitions of the read, one for each task; called once, by the planner."""
        cluster = self._connect(self._options)
        start, end, log_epochs = self._positions(cluster)
        parallelism = cluster_parallelism()
        ranges = ranges_between(start, end, log_epochs)
        planned = plan_partitions(ranges, self._options.limits, parallelism=parallelism)
        topics = {queue.topic for queue in start}
        return list(task_partitions(planned, self._options, topics, parallelism=parallelism))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one partition; called in a task."""
        if not isinstance(partition, TaskPartition):  # Spark's placeholder for "no partitions".
            return iter(())
        running = micro_batch_of_task(TaskContext.get())
        if running is not None:
            _check_plan(self._plan_id, running)
        options = task_options(self._options, partition)
        reader = RangeReader(self._connect(options), options, pace=Pace(partition.bytes_per_s))
        return reader.batches(partition.ranges, self._projection)

    def _positions(self, cluster: Cluster) -> tuple[Positions, Positions, LogEpochs]:
        bounds = self._options.selection.bounds(cluster)
        self._options.selection.check_found(bounds)
        warn_of_missing_brokers(bounds, cluster.uncertain_topics())
        self._check_brokers(cluster, bounds)
        start = resolve(self._options.starting, bounds, cluster, unnamed=Edge.EARLIEST)
        end = resolve(self._options.ending, bounds, cluster, unnamed=Edge.LATEST)
        bounds = bounds_around(
            (start, end), bounds, lambda: self._options.selection.bounds(cluster)
        )
        self._check_kept(start, end, bounds)
        return start, end, epochs_of(bounds)

    def _check_brokers(self, cluster: Cluster, bounds: Mapping[MessageQueue, Bounds]) -> None:
        """Raise, or warn, for brokers whose queues the read would have if they were not away."""
        loss = DataLossPolicy(fails=self._options.fail_on_data_loss)
        for topic in sorted({queue.topic for queue in bounds}):
            away = {
                name
                for name in cluster.away_brokers(topic)
                if self._options.selection.selects(MessageQueue(topic, name, 0))
            }
            if away:
                loss.brokers_away(topic, away)

    def _check_kept(
        self, start: Positions, end: Positions, bounds: Mapping[MessageQueue, Bounds]
    ) -> None:
        """Raise at once for explicit offsets that do not exist; tasks would fail later."""
        loss = DataLossPolicy(fails=self._options.fail_on_data_loss)
        for queue, kept in bounds.items():
            if start[queue] < kept.earliest or max(start[queue], end[queue]) > kept.latest:
                loss.out_of_range(queue, start[queue], end[queue], kept)
                start[queue] = max(start[queue], kept.earliest)
                end[queue] = min(end[queue], kept.latest)


@lru_cache(maxsize=256)
def _batches_of(plan_id: str) -> set[int]:
    """The micro-batches for which this process read by a plan."""
    del plan_id
    return set()


def _check_plan(plan_id: str, running: MicroBatch) -> None:
    """Warn once where a plan is used for another micro-batch: newer messages are missing in it."""
    batches = _batches_of(plan_id)
    if len(batches) == 1 and running.batch_id not in batches:
        _log.warning(
            "micro-batch %d of query %s reads a topic as it was in micro-batch %d: Spark plans the"
            " static side of a join once; to see later messages, join in foreachBatch, with a"
            " load() for each micro-batch",
            running.batch_id,
            running.query,
            *batches,
        )
    batches.add(running.batch_id)
