"""Appends the rows of a table to topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from ariane_sdk.errors import ColumnIllegal
from ariane_spark.connection import connect_producer_once
from ariane_spark.errors import FeatureNotAvailable, OptionIllegal, RowIllegal
from ariane_spark.options import WriteOptions, write_options
from ariane_spark.rows import IdentitySeed, RowPlan

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""Where Spark's engine tells a task which micro-batch it works for; neither is documented."""


class ColumnSender(Protocol):
    """Sends tables and waits for the acknowledgement of every row."""

    def send_columns(self, topic: str, table: pa.Table) -> Any:
        """Send; return once every row is acknowledged.

        Raises:
            ArianeError: Some were not.
        """


ConnectSender: TypeAlias = Callable[[WriteOptions], ColumnSender]


@dataclass(frozen=True)
class WriteReceipt(WriterCommitMessage):
    """What one task wrote.

    Attributes:
        partition_id: Which partition.
        message_count: How many messages were acknowledged.
    """

    partition_id: int
    message_count: int


class ArianeBatchWriter(DataSourceArrowWriter):
    """Writes at least once: a task ends well only when all its messages are acknowledged.

    A task that fails and is repeated writes its messages again. Each bears a property by which a
    consumer can tell; see ``rows.MESSAGE_ID_PROPERTY``.
    """

    def __init__(
        self, options: WriteOptions, plan: RowPlan, connect: ConnectSender = connect_producer_once
    ) -> None:
        """Nothing is sent yet.

        Args:
            options: Where to write.
            plan: What of a row becomes what of a message.
            connect: Gives the sender of the process that asks.
        """
        self._options = options
        self._plan = plan
        self._connect = connect
        # One object serves all tasks and their repetitions, so this names the write as a whole.
        self._write_id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReceipt:
        """Send the rows of one partition; called in a task."""
        context = TaskContext.get()
        partition_id = context.partitionId() if context else 0
        seed = IdentitySeed(f"{self._write_name(context)}/{partition_id}")
        sender = self._connect(self._options)
        count = 0
        for batch in iterator:
            for topic, table, rows in self._plan.tables(batch, seed, count):
                try:
                    sender.send_columns(topic, table)
                except ColumnIllegal as error:
                    place = "" if error.row is None else f"row {rows[error.row]} of "
                    raise RowIllegal(f"{place}{seed.text}: {error}") from error
            count += len(batch)
        return WriteReceipt(partition_id, count)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what a task wrote stands when the task ends."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what was written stays, and a repetition writes it again."""

    def _write_name(self, context: TaskContext | None) -> str:
        """The micro-batch of the query that is running, or else this write."""
        query_id = context.getLocalProperty(QUERY_ID_PROPERTY) if context else None
        batch_id = context.getLocalProperty(BATCH_ID_PROPERTY) if context else None
        if query_id is None or batch_id is None:
            return self._write_id
        return f"{query_id}/{batch_id}"


def batch_writer(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> ArianeBatchWriter:
    """The writer for a table.

    Args:
        given: Options as the user gave them.
        schema: Of the table.
        overwrite: Whether the user wants what is there to go; refused.

    Raises:
        OptionError: An option cannot be obeyed.
        SchemaIllegal: A column cannot be written, or the body is missing.
    """
    options = write_options(given)
    if overwrite:
        raise OptionIllegal("mode", "a topic is only appended to; use mode('append')")
    return ArianeBatchWriter(options, RowPlan.of(schema, options.topic))


def refuse_stream_writer() -> NoReturn:
    """Say how streams are written for now."""
    raise FeatureNotAvailable(
        "format",
        "writeStream.format('ariane') is not available yet; use"
        " writeStream.foreachBatch(ariane_spark.foreach_batch_writer(...))",
    )
