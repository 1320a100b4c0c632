"""A source without a queue, which yields batches that were built before, and a sink that drops.

They stand in a module that workers import, as they import the connector: what is sent to tasks by
value takes them longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from ariane_spark.calls.spared_modules import spare_modules


@dataclass(frozen=True)
class Prebuilt:
    """What a source without a queue yields: one batch so many times in each partition."""

    schema: StructType
    batch: pa.RecordBatch
    times: int
    partitions: int


class PrebuiltReader(DataSourceReader):
    """Reads once."""

    def __init__(self, prebuilt: Prebuilt) -> None:
        self._prebuilt = prebuilt

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(at) for at in range(self._prebuilt.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        del partition
        spare_modules()  # As the connector does: what collections cost is no part of the limit.
        for _ in range(self._prebuilt.times):
            yield self._prebuilt.batch


class PrebuiltStreamReader(DataSourceStreamReader):
    """Has something new each time it is asked."""

    def __init__(self, prebuilt: Prebuilt) -> None:
        self._prebuilt = prebuilt

    def initialOffset(self) -> dict:  # noqa: N802 - Spark's name.
        return {"at": 0}

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:  # noqa: N802 - Spark's name.
        del limit
        return {"at": start["at"] + 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name.
        return ReadMaxRows(1)

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        del start, end
        return [InputPartition(at) for at in range(self._prebuilt.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return PrebuiltReader(self._prebuilt).read(partition)


class Dropping(DataSourceArrowWriter):
    """Takes everything, keeps nothing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list) -> None:
        pass

    def abort(self, messages: list) -> None:
        pass


def register(spark: SparkSession, name: str, prebuilt: Prebuilt) -> None:
    """Make a prebuilt batch readable as a format of this name."""

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return prebuilt.schema

        def reader(self, schema: StructType) -> DataSourceReader:
            del schema
            return PrebuiltReader(prebuilt)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            del schema
            return PrebuiltStreamReader(prebuilt)

        def writer(self, schema: StructType, overwrite: bool) -> Dropping:
            del schema, overwrite
            return Dropping()

    spark.dataSource.register(Source)
