"""What writers of streams are to Spark: those of Spark 4.0 take rows, and later ones batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

TAKES_BATCHES = True
"""Whether Spark passes batches to a writer of streams."""

if not TYPE_CHECKING:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:
        DataSourceStreamArrowWriter = DataSourceStreamWriter
        TAKES_BATCHES = False

__all__ = ["TAKES_BATCHES", "DataSourceStreamArrowWriter", "RowStreamWriter", "batches_of_rows"]

BATCH_ROWS: Final = 2000
"""Rows in one batch that is made of them."""


class _BatchWriter(Protocol):
    """A writer of streams, as Spark 4.1 and later have them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage: ...

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None: ...  # noqa: N803 - Spark's name.

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None: ...  # noqa: N803 - Spark's name.


class RowStreamWriter(DataSourceStreamWriter):
    """A writer of batches for Spark 4.0, which makes rows of its batches and passes these."""

    def __init__(self, writer: _BatchWriter, schema: StructType) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write the rows of one partition; called in a task."""
        return self._writer.write(batches_of_rows(iterator, self._schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """As the wrapped writer."""
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """As the wrapped writer."""
        self._writer.abort(messages, batchId)


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows as batches; Spark's own conversion, which needs a statement for each value.

    Args:
        rows: The rows.
        schema: Their columns.
    """
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415 - needs Arrow.

    while some := list(islice(rows, BATCH_ROWS)):
        yield from LocalDataToArrowConversion.convert(some, schema, False).to_batches()  # noqa: FBT003 - Spark's signature.
