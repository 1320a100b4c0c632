"""The name of a batch that a task writes: two writes with one name are the same write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.taskcontext import TaskContext

from ariane_spark.errors import OptionIllegal
from ariane_spark.options.write_options import WRITE, MicroBatch, WriteOptions

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""The properties with a task's micro-batch, set by Spark's engine; neither is documented."""

_SINGLE: Final = f"{WRITE}/"


@dataclass(frozen=True, slots=True)
class Sink:
    """A place that a query, or a job, writes to."""

    name: str
    """Its permanent name, in all brokers."""
    topic: str | None
    """The topic of all its messages; ``None``: a column has it."""
    brokers: tuple[str, ...] = ()
    """The only brokers that it writes to; none: all with queues of the topic."""

    def has(self, broker_name: str) -> bool:
        """Whether it writes to a broker."""
        return not self.brokers or broker_name in self.brokers


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """The rows that a sink writes at once: all or none are visible, once even if repeated."""

    sink: Sink
    """The sink."""
    batch_id: int
    """Spark's number of the micro-batch; 0 for a write that is not a stream."""

    @property
    def is_single(self) -> bool:
        """Whether it is the only batch of a write that is not a stream."""
        return self.sink.name.startswith(_SINGLE)

    @property
    def may_be_first(self) -> bool:
        """Whether its sink is most likely new: a stream counts from 0, and seldom repeats that.

        A write that is not a stream has one batch, and a repeated job repeats it.
        """
        return self.batch_id == 0 and not self.is_single

    def __str__(self) -> str:
        if self.is_single:
            return f"write {self.sink.name.removeprefix(f'{WRITE}/')}"
        return f"micro-batch {self.batch_id} of {self.sink.name}"


class Attempt(NamedTuple):
    """The staged part of one attempt of a task."""

    partition_id: int
    """Spark's partition."""
    token: str
    """A random name of the attempt."""
    record_count: int
    """The number of its messages."""
    checksum: int
    """The checksum of its blocks."""
    broker_name: str
    """The broker that has it."""


def micro_batch_of_task(context: TaskContext | None) -> MicroBatch | None:
    """The micro-batch that a task works for, as Spark's engine knows it; None outside streams."""
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY) if context else None
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY) if context else None
    if query_id is None or batch_id is None:
        return None
    return MicroBatch(query_id, int(batch_id))


def batch_of_options(options: WriteOptions) -> SinkBatch:
    """The batch that the options name. Nothing else does: a random name would not be repeated.

    Raises:
        OptionIllegal: They name none, or an option has no meaning here.
    """
    if options.micro_batch is not None:
        return _batch_of_stream(options, options.micro_batch)
    if options.sink_id is not None:
        raise OptionIllegal("sinkId", "is for streams; a single write is named by 'writeId'")
    if options.write_id is None:
        raise OptionIllegal(
            "writeId",
            "is required: exactly once, a write must have a name by which its repetition is"
            " recognised; in foreachBatch, write by ariane_spark.foreach_batch_writer",
        )
    # A write to another topic is another write, even with the same name.
    name = f"{WRITE}/{options.write_id}/{options.topic or ''}"
    return SinkBatch(Sink(name, options.topic, options.sink_brokers), 0)


def batch_of_task(options: WriteOptions, context: TaskContext | None) -> SinkBatch:
    """The batch of a stream that a task works for.

    Raises:
        OptionIllegal: Spark does not tell.
    """
    running = micro_batch_of_task(context)
    if running is None:
        raise OptionIllegal(
            "deliveryGuarantee", "this version of Spark does not tell tasks their micro-batch"
        )
    return _batch_of_stream(options, running)


def _batch_of_stream(options: WriteOptions, running: MicroBatch) -> SinkBatch:
    name = f"{running.query}/{place_of(options)}"
    return SinkBatch(Sink(name, options.topic, options.sink_brokers), running.batch_id)


def place_of(options: WriteOptions) -> str:
    """The name that distinguishes the writes of one query: the option or the topic."""
    return options.sink_id or options.topic or ""
