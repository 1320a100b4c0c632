"""Streams on Spark 4.1, which gives neither begin nor limit of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ariane_spark.positions.offsets import OffsetsJson
from ariane_spark.source.stream_reader import ArianeStreamReader

if TYPE_CHECKING:
    import pyarrow as pa


class UnlimitedStreamReader(DataSourceStreamReader):
    """The same reader, which remembers how far it came and limits itself.

    A query that is started again plans nothing from where it stood to the same place before it asks
    for anything else: so the place is known.
    """

    def __init__(self, reader: ArianeStreamReader) -> None:
        self._reader = reader
        self._reached: dict[str, Any] | None = None

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name.
        """Where a new query starts."""
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override, unused-ignore]  # noqa: N802 - as Spark 4.1 has it.
        """Where the next micro-batch ends."""
        start = self._reader.initialOffset() if self._reached is None else self._reached
        self._reached = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        return self._reached

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The partitions of a micro-batch, one for each task."""
        self._reached = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one partition; called in a task."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """As the reader does."""
        self._reader.commit(end)

    def stop(self) -> None:
        """As the reader does."""
        self._reader.stop()
