"""Reads topics as a stream: Spark requests end positions, and keeps them.

All important state is in the positions, which are in Spark's checkpoint. Other state of this object
lives in one process for one run of a query, and may be lost at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_sdk.errors import (
    CallError,
    QueueOffsetOutOfRange,
    RouteNotFound,
    ServiceUnavailable,
    TopicNotFound,
)
from ariane_spark.calls.cluster import Cluster, Connect, Fetch
from ariane_spark.calls.connection import connect_once
from ariane_spark.calls.repetition import WARM_UP_WAIT_S, WARM_UP_WAITS_MAX, Repetition
from ariane_spark.options.options import ReadOptions
from ariane_spark.positions.offsets import (
    Bounds,
    LogEpochs,
    OffsetsJson,
    Positions,
    begins_of,
    done_by,
    done_in,
    epochs_of,
    from_checkpoint,
    log_epochs_of,
    to_json,
)
from ariane_spark.positions.partitions import plan_partitions
from ariane_spark.positions.position_rules import Edge
from ariane_spark.positions.ranges import QueueRange, ranges_between
from ariane_spark.records.columns import Detail, Projection
from ariane_spark.source.admission import Patience, backlog_of, limited
from ariane_spark.source.data_loss import DataLossPolicy, warn_of_missing_brokers
from ariane_spark.source.first_positions import bounds_around, resolve
from ariane_spark.source.group_progress import GroupProgress
from ariane_spark.source.left_brokers import LeftBrokers
from ariane_spark.source.pace import Pace
from ariane_spark.source.parallelism import cluster_parallelism
from ariane_spark.source.range_reader import RangeReader
from ariane_spark.source.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from ariane_spark.source.task_partitions import TaskPartition, task_options, task_partitions

if TYPE_CHECKING:
    import pyarrow as pa


class ArianeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One run of a streaming query; its tasks read by a copy of this object."""

    def __init__(
        self,
        options: ReadOptions,
        projection: Projection,
        connect: Connect = connect_once,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Ask and read nothing yet.

        Args:
            options: The options of the read.
            projection: The columns.
            connect: Returns the connection of the present process.
            monotonic: Seconds since some moment.
            sleep: Waits for a number of seconds.
        """
        self._options = options
        self._projection = projection
        self._connect = connect
        self._monotonic = monotonic
        self._sleep = sleep
        self._repetition = Repetition(options.requests, sleep=sleep)
        self._loss = DataLossPolicy(fails=options.fail_on_data_loss)
        self._initial: OffsetsJson | None = None
        self._begun: Positions = {}
        self._target: dict[MessageQueue, Bounds] | None = None
        self._bounds: dict[MessageQueue, Bounds] = {}
        self._bounds_until = float("-inf")
        self._lacks_topics = False
        self._uncertain: Container[str] = ()
        self._standing: set[tuple[QueueRange, int]] = set()
        self._left = LeftBrokers(monotonic)
        self._patience = Patience(options.trigger, monotonic)
        self._progress = GroupProgress(options.commit_group, monotonic)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name.
        """The start of a new query; Spark calls this twice and must get the same answer."""
        if self._initial is None:
            cluster = self._connect(self._options)
            selection = self._options.selection
            bounds = self._bounds_at_start()
            if self._lacks_topics:
                # A new query requires all named queues: none of them can have been lost.
                bounds = selection.bounds(cluster)
            selection.check_found(bounds)
            start = resolve(self._options.starting, bounds, cluster, unnamed=Edge.EARLIEST)
            bounds = bounds_around([start], bounds, self._bounds_anew)
            if self._target is not None:
                # A run that ends is prepared before it is asked for its start, which may be later,
                # and may know more brokers.
                self._target = dict(bounds)
            start = self._kept(start, bounds)
            done = done_by(start, bounds, frozenset())
            self._initial = to_json(start, epochs_of(bounds), done=done)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name.
        """Fix the offsets at which this run ends."""
        self._target = dict(self._bounds_anew())
        warn_of_missing_brokers(self._target, self._uncertain)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name.
        """The limit of a micro-batch, unless the trigger has one."""
        trigger = self._options.trigger
        if trigger.records_max is not None:
            return ReadMaxRows(trigger.records_max)
        if trigger.bytes_max is not None:
            return ReadMaxBytes(trigger.bytes_max)
        # Spark does not combine limits; the ones that it does not know are applied here.
        return ReadAllAvailable() if trigger.records_min is None else ReadMinRows(1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name.
        """The end of the next micro-batch; ``start`` itself if there is nothing to read."""
        begin, were_done = from_checkpoint(start), done_in(start)
        self._begun = begin if start == self._initial else {}
        # Spark calls this again when the micro-batch that ended here is done.
        self._progress.store(begin, self._connect(self._options))
        bounds = self._current_bounds() if self._target is None else self._target
        epochs = log_epochs_of(start)
        bounds = self._handed_out(begin, epochs, bounds)
        self._check_epochs(begin, epochs, bounds)
        new = {queue: kept.earliest for queue, kept in bounds.items() if queue not in begin}
        end = self._ends(begin | new, bounds)
        gone = self._gone(begin, bounds, were_done)
        if not isinstance(limit, ReadAllAvailable):
            if self._target is None and not self._patience.is_over(backlog_of(begin, bounds)):
                return start
            end = limited(begin | new, end, bounds, limit, self._options.trigger)
        # A loss that is accepted now is none for a later run that accepts none.
        done = done_by(end, bounds, were_done | gone)
        if end == begin and done == were_done:
            return start
        self._patience.begin_anew()
        return to_json(end, epochs | epochs_of(bounds), new, done)

    def reportLatestOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name.
        """The present ends of the queues; the query's progress shows them, which gives the lag.

        With the first micro-batch of a query, of which Spark shows no start, it shows that as well.
        """
        bounds = self._current_bounds()
        begins = {queue: begin for queue, begin in self._begun.items() if queue in bounds}
        ends = {queue: kept.latest for queue, kept in bounds.items()}
        return to_json(ends, epochs_of(bounds), begins)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The partitions of a micro-batch, one for each task; on a replay this is called first."""
        to = from_checkpoint(end)
        epochs = log_epochs_of(end)
        # Also where new queues begin is in the checkpoint: a replay reads the same messages, or
        # reports their loss.
        begins = self._begins(begins_of(end) | from_checkpoint(start), to)
        begins |= self._begins_anew(begins, log_epochs_of(start), epochs)
        ranges = ranges_between(begins, to, epochs)
        parallelism = cluster_parallelism()
        planned = plan_partitions(ranges, self._options.limits, parallelism=parallelism)
        topics = {queue.topic for queue in to}
        return list(task_partitions(planned, self._options, topics, parallelism=parallelism))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one partition; called in a task."""
        if not isinstance(partition, TaskPartition):
            return iter(())
        options = task_options(self._options, partition)
        reader = RangeReader(self._connect(options), options, pace=Pace(partition.bytes_per_s))
        return reader.batches(partition.ranges, self._projection)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint keeps progress, and ``latestOffset`` gets it earlier."""

    def stop(self) -> None:
        """Do nothing: connections end with the process."""

    def _kept(self, start: Positions, bounds: Mapping[MessageQueue, Bounds]) -> Positions:
        """The user's positions, each moved to the nearest kept offset."""
        for queue, kept in bounds.items():
            if not kept.earliest <= start[queue] <= kept.latest:
                self._loss.out_of_range(queue, start[queue], kept.latest, kept)
                start[queue] = min(max(start[queue], kept.earliest), kept.latest)
        return start

    def _ends(self, begin: Positions, bounds: Mapping[MessageQueue, Bounds]) -> Positions:
        """The present readable end of each queue; of one that is not there, where it was read."""
        self._left.are_there(bounds)
        for queue, position in begin.items():
            if not self._options.selection.selects(queue):
                self._loss.queue_left(queue, position)
            elif queue in bounds and bounds[queue].latest < position:
                self._loss.queue_shrunk(queue, position, bounds[queue])
        return begin | {queue: kept.latest for queue, kept in bounds.items()}

    def _gone(
        self,
        begin: Positions,
        bounds: Mapping[MessageQueue, Bounds],
        done: Container[MessageQueue],
    ) -> frozenset[MessageQueue]:
        """The queues that went with brokers out of service; only if losses are no errors.

        Raises:
            DataLost: There is one, and a loss ends the query.
        """
        selects, cluster = self._options.selection.selects, self._connect(self._options)
        missing = [
            queue
            for queue in begin
            # Name servers do not know all brokers right after their start.
            if queue not in bounds and selects(queue) and queue.topic not in self._uncertain
        ]
        run_ends = self._target is not None
        gone = self._left.lost(missing, done, cluster, run_ends=run_ends)
        for queue in gone:
            self._loss.queue_gone(queue, begin[queue])
        return frozenset(each for each in gone if self._left.is_out_of_service(each, cluster))

    def _handed_out(
        self, begin: Positions, epochs: LogEpochs, bounds: dict[MessageQueue, Bounds]
    ) -> dict[MessageQueue, Bounds]:
        """Bounds, after new primaries can return all messages up to the positions.

        A broker that has just become primary may have the messages up to a position and report a
        lower end until the other brokers in sync have them too; this waits for that.
        """
        hidden = []
        for queue, kept in bounds.items():
            epoch = epochs.get((queue.topic, queue.broker_name), 0)
            if queue not in begin or epoch in {0, kept.log_epoch} or kept.latest >= begin[queue]:
                continue
            if self._end_of_old(QueueRange(queue, begin[queue], begin[queue], epoch)) is None:
                hidden.append(queue)
        if not hidden:
            return bounds
        now = self._bounds_anew()
        bounds = bounds | {queue: now[queue] for queue in hidden if queue in now}
        if self._target is not None:
            self._target = bounds
        return bounds

    def _check_epochs(
        self, begin: Positions, epochs: LogEpochs, bounds: Mapping[MessageQueue, Bounds]
    ) -> None:
        """Ask brokers with a new log epoch whether positions are still valid.

        Raises:
            DataLost: One is not, and a loss ends the query.
        """
        for queue, kept in bounds.items():
            epoch = epochs.get((queue.topic, queue.broker_name), 0)
            if queue not in begin or epoch in {0, kept.log_epoch} or kept.latest < begin[queue]:
                continue
            place = QueueRange(queue, begin[queue], begin[queue], epoch)
            if (place, kept.log_epoch) not in self._standing:
                end = self._end_of_old(place)
                if end is not None:
                    self._loss.queue_cut(queue, place.begin, end)
                self._standing.add((place, kept.log_epoch))

    def _end_of_old(self, place: QueueRange) -> QueueOffset | None:
        """The offset up to which a queue is unchanged since a position was read; None if all is."""
        fetch = Fetch.of(Detail.POSITIONS, self._options)

        def read() -> None:
            for _ in self._connect(self._options).read_range(place, fetch):
                pass

        try:
            # The epoch is new: its primary may have taken over just now, or have handed over again.
            self._repetition.ask(read)
        except QueueOffsetOutOfRange:
            return None  # Messages that retention has deleted are reported when they are read.
        except CallError as refusal:
            if refusal.reason != "QUEUE_CUT":
                raise
            return QueueOffset(int(refusal.metadata.get("end", 0)))
        return None

    def _begins_anew(
        self, begins: Positions, start_epochs: LogEpochs, end_epochs: LogEpochs
    ) -> Positions:
        """The starts of queues that have changed since ``start``; only if losses are no errors.

        A topic that was created anew is read from its begin; a queue that lost its end is read from
        the first message that replaced it.
        """
        anew: Positions = {}
        if self._loss.fails:
            return anew
        for queue, begin in begins.items():
            name = (queue.topic, queue.broker_name)
            epoch = start_epochs.get(name, 0)
            if epoch in {0, end_epochs.get(name, 0)}:
                continue
            end = self._end_of_old(QueueRange(queue, begin, begin, epoch))
            if end is not None and end < begin:
                kept = self._current_bounds().get(queue)
                anew[queue] = end if kept is None else max(end, kept.earliest)
        return anew

    def _begins(self, start: Positions, end: Positions) -> Positions:
        """The start of each queue; one that ends before its start was created anew in between."""
        begins = {}
        for queue, end_position in end.items():
            begin = start.get(queue)
            if begin is None or begin > end_position:
                kept = self._current_bounds().get(queue)
                begin = end_position if kept is None else kept.earliest
            begins[queue] = begin
        return begins

    def _current_bounds(self) -> dict[MessageQueue, Bounds]:
        """The kept ranges of the queues, at most some hundred milliseconds old.

        An idle query without a trigger asks about 200 times a second.
        """
        now = self._monotonic()
        if now >= self._bounds_until:
            cluster = self._connect(self._options)
            self._bounds = self._bounds_now(cluster)
            self._uncertain = cluster.uncertain_topics()
            self._left.ask_anew()
            self._bounds_until = self._monotonic() + self._options.offset_cache_ms / 1000
        return self._bounds

    def _bounds_anew(self) -> dict[MessageQueue, Bounds]:
        """The kept ranges of the queues, as they are now."""
        self._bounds_until = float("-inf")
        return self._current_bounds()

    def _bounds_at_start(self) -> dict[MessageQueue, Bounds]:
        """The kept ranges of all queues, once the name servers know all brokers.

        A queue that appears later is read from its earliest message on, because it may be new. So
        all present queues must be known at the start. A query that starts at the earliest message
        need not wait.

        Raises:
            ServiceUnavailable: No name server knows all brokers after more than a warm-up.
        """
        for _ in range(WARM_UP_WAITS_MAX):
            bounds = self._current_bounds()
            uncertain = {queue.topic for queue in bounds if queue.topic in self._uncertain}
            if not uncertain or self._options.starting is Edge.EARLIEST:
                return bounds
            self._sleep(WARM_UP_WAIT_S)
            self._bounds_until = float("-inf")
        raise ServiceUnavailable(
            "name servers have just started, or do not answer; brokers of"
            f" {', '.join(sorted(uncertain))} may be missing, and would be read from their earliest"
            " message on",
            retriable=True,
        )

    def _bounds_now(self, cluster: Cluster) -> dict[MessageQueue, Bounds]:
        """The kept ranges of all queues, without those of deleted topics.

        The reached positions show whether that is a loss.

        Raises:
            RouteNotFound: The route is still unknown, because name servers have just started.
            ArianeError: A broker does not answer.
        """
        selection = self._options.selection
        self._lacks_topics = False
        try:
            return selection.bounds(cluster, waits=False)  # The others are read meanwhile.
        except (RouteNotFound, TopicNotFound) as error:
            if self._loss.fails and "warming_up" in error.metadata:
                raise
        self._lacks_topics = True
        return selection.bounds(cluster, lenient=True)
