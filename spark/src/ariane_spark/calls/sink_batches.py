"""The name of a batch that a task writes: two writes with one name are the same write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.taskcontext import TaskContext

from ariane_spark.errors import OptionIllegal
from ariane_spark.options.options import WriteOptions

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""The properties with a task's micro-batch, set by Spark's engine; neither is documented."""

_WRITE: Final = "write/"


@dataclass(frozen=True, slots=True)
class Sink:
    """A place that a query, or a job, writes to.

    Attributes:
        name: Its permanent name, in all brokers.
        topic: The topic of all its messages; ``None``: a column has it.
        fresh: Whether the name was drawn at random just now, so that no broker knows it yet.
    """

    name: str
    topic: str | None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """The rows that a sink writes at once: all or none are visible, once even if repeated.

    Attributes:
        sink: The sink.
        batch_id: Spark's number of the micro-batch; 0 for a write that is not a stream.
    """

    sink: Sink
    batch_id: int

    @property
    def is_single(self) -> bool:
        """Whether it is the only batch of a write that is not a stream."""
        return self.sink.name.startswith(_WRITE)

    def __str__(self) -> str:
        if self.is_single:
            return f"write {self.sink.name.removeprefix(_WRITE)}"
        return f"micro-batch {self.batch_id} of {self.sink.name}"


def micro_batch(context: TaskContext | None) -> tuple[str, int] | None:
    """The query and the micro-batch that a task works for; None outside streams."""
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY) if context else None
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY) if context else None
    if query_id is None or batch_id is None:
        return None
    return query_id, int(batch_id)


def batch_of_write(options: WriteOptions, drawn_id: str) -> SinkBatch:
    """The only batch of a write that is not a stream.

    Args:
        options: May name the write, which makes it repeatable.
        drawn_id: Its name otherwise.
    """
    # A write to another topic is another write, even with the same name.
    name = f"{_WRITE}{options.write_id or drawn_id}/{options.topic or ''}"
    return SinkBatch(Sink(name, options.topic, fresh=options.write_id is None), 0)


def batch_of_task(
    options: WriteOptions, context: TaskContext | None, drawn_id: str | None
) -> SinkBatch:
    """The batch that a task works for.

    Args:
        options: The options of the write.
        context: The context of the task.
        drawn_id: The name of a write that is not a stream; ``None`` for streams.

    Raises:
        OptionIllegal: An option has no meaning for this task.
    """
    running = micro_batch(context)
    if running is None:
        if drawn_id is None:
            raise OptionIllegal(
                "deliveryGuarantee", "this version of Spark does not tell tasks their micro-batch"
            )
        if options.sink_id is not None:
            raise OptionIllegal("sinkId", "is for streams; a single write is named by 'writeId'")
        return batch_of_write(options, drawn_id)
    if options.write_id is not None:
        raise OptionIllegal(
            "writeId", "is for single writes; a stream is named by its checkpoint, and by 'sinkId'"
        )
    query_id, batch_id = running
    return SinkBatch(Sink(f"{query_id}/{place_of(options)}", options.topic), batch_id)


def place_of(options: WriteOptions) -> str:
    """The name that distinguishes the writes of one query: the option or the topic."""
    return options.sink_id or options.topic or ""
