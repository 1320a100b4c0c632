"""Streams on Spark 4.0 and 4.1, which pass neither the start nor a limit of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ariane_spark.positions.offsets import OffsetsJson
from ariane_spark.source.stream_reader import ArianeStreamReader

if TYPE_CHECKING:
    import pyarrow as pa


class UnlimitedStreamReader(DataSourceStreamReader):
    """The same reader, which keeps its position and limits itself.

    A query that is started again first plans an empty range at its last position: so this position
    is known.
    """

    def __init__(self, reader: ArianeStreamReader) -> None:
        self._reader = reader
        self._reached: dict[str, Any] | None = None

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name.
        """The start of a new query."""
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override, unused-ignore]  # noqa: N802 - as they have it.
        """The end of the next micro-batch."""
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
        """As the wrapped reader."""
        self._reader.commit(end)

    def stop(self) -> None:
        """As the wrapped reader."""
        self._reader.stop()
