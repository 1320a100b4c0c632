"""Appends the rows of a table to topics, at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from ariane_sdk.errors import ColumnIllegal
from ariane_spark.calls.connection import connect_producer_once
from ariane_spark.calls.sink_batches import micro_batch_of_task
from ariane_spark.errors import OptionIllegal, RowIllegal
from ariane_spark.options.access_options import rights_to_write
from ariane_spark.options.write_options import (
    WriteOptions,
    without_those_of_spark,
    write_options,
)
from ariane_spark.records.bad_rows import RowRefused, RowSieve, raise_refusals, refused
from ariane_spark.records.rows import IdentitySeed, RowPlan, row_refusal
from ariane_spark.sink.exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from ariane_spark.sink.stream_writers import (
    TAKES_BATCHES,
    DataSourceStreamArrowWriter,
    RowStreamWriter,
)
from ariane_spark.sink.write_spans import write_span

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnSender(Protocol):
    """Sends tables and waits for the acknowledgement of every row."""

    def send_columns(self, topic: str, table: pa.Table) -> Any:
        """Send; return once every row is acknowledged.

        Raises:
            ArianeError: Some rows were not acknowledged.
        """


ConnectSender: TypeAlias = Callable[[WriteOptions], ColumnSender]


@dataclass(frozen=True)
class WriteReceipt(WriterCommitMessage):
    """The receipt of one task."""

    partition_id: int
    """The partition."""
    message_count: int
    """The number of acknowledged messages."""


class ArianeBatchWriter(DataSourceArrowWriter):
    """Writes at least once: a task succeeds only when all its messages are acknowledged.

    A task that fails and is repeated writes its messages again. Each has a property by which a
    consumer can recognise them; see ``rows.MESSAGE_ID_PROPERTY``.
    """

    def __init__(
        self, options: WriteOptions, plan: RowPlan, connect: ConnectSender = connect_producer_once
    ) -> None:
        self._options = options
        self._plan = plan
        self._connect = connect
        # One object serves all tasks and their repeats, so this is the name of the whole write.
        self._write_id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReceipt | RowRefused:
        """Send the rows of one partition; called in a task."""
        context = TaskContext.get()
        partition_id = context.partitionId() if context else 0
        running = self._options.micro_batch or micro_batch_of_task(context)
        # The micro-batch of the running query, or else this write.
        name = f"{running.query}/{running.batch_id}" if running else self._write_id
        seed = IdentitySeed(f"{name}/{partition_id}")
        sieve = RowSieve(self._plan, self._options.dead_letter_topic)
        count = 0
        try:
            with write_span(self._options.otlp_endpoint) as span:
                for batch in iterator:
                    for share in sieve.tables(batch, seed, count):
                        topic, table, rows = span.marked(share)
                        try:
                            with span.current():
                                self._connect(self._options).send_columns(topic, table)
                        except ColumnIllegal as error:
                            raise row_refusal(error, rows, error.row, seed.text) from error
                    count += len(batch)
        except RowIllegal as error:
            return refused(error, iterator)
        return WriteReceipt(partition_id, count)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise the errors that tasks reported; rows written stay.

        Raises:
            RowIllegal: A row cannot become a message.
        """
        raise_refusals(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: rows written stay, and a retry writes them again."""


class ArianeStreamWriter(DataSourceStreamArrowWriter):
    """The same for each micro-batch of a stream."""

    def __init__(self, writer: ArianeBatchWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReceipt | RowRefused:
        """Send the rows of one partition; called in a task."""
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature.
        """As ``ArianeBatchWriter``."""
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """Do nothing: rows written stay, and a retry writes them again."""


def batch_writer(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer for a table.

    Args:
        given: The user's options.
        schema: The schema of the table.
        overwrite: Whether existing messages are to be deleted; refused.

    Raises:
        OptionError: An option is illegal.
        SchemaIllegal: A column cannot be written, or the body is missing.
    """
    options = _for_tasks(write_options(given))
    if overwrite:
        raise OptionIllegal("mode", "a topic is only appended to; use mode('append')")
    plan = RowPlan.of(schema, options.topic)
    if options.exactly_once:
        return ExactlyOnceWriter(options, plan)
    return ArianeBatchWriter(options, plan)


def stream_writer(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter | DataSourceStreamWriter:
    """The writer for a stream.

    Args:
        given: The user's options.
        schema: The schema of the stream.
        overwrite: Whether each micro-batch replaces earlier ones; refused.

    Raises:
        OptionError: An option is illegal.
        SchemaIllegal: A column cannot be written, or the body is missing.
    """
    options = _for_tasks(write_options(without_those_of_spark(given)))
    if overwrite:
        raise OptionIllegal("outputMode", "a topic is only appended to; use outputMode('append')")
    if options.write_id is not None:
        raise OptionIllegal("writeId", "is for single writes; streams are told apart by 'sinkId'")
    if options.micro_batch is not None:
        raise OptionIllegal("query", "is for foreachBatch; a stream is named by its checkpoint")
    plan = RowPlan.of(schema, options.topic)
    writer: ExactlyOnceStreamWriter | ArianeStreamWriter
    if options.exactly_once:
        writer = ExactlyOnceStreamWriter(options, plan)
    else:
        writer = ArianeStreamWriter(ArianeBatchWriter(options, plan))
    return writer if TAKES_BATCHES else RowStreamWriter(writer, schema)


def _for_tasks(options: WriteOptions) -> WriteOptions:
    """The options with what tasks and the commit log in by.

    Raises:
        OptionIllegal: A file cannot be read.
    """
    topics = {options.topic, options.dead_letter_topic or options.topic}
    rights = rights_to_write(topics, exactly_once=options.exactly_once)
    return replace(options, access=options.access.for_tasks(rights))
