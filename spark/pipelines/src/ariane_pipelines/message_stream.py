"""Queries over the stream of messages of topics: their begin, and their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MICRO_BATCH_RECORDS: Final = 1_000_000
"""The most messages of one micro-batch: bounds its duration, and the files of an archive."""


def message_stream(
    spark: SparkSession,
    source: Mapping[str, str],
    *,
    batch_records_max: int,
    options: Mapping[str, str] | None,
) -> DataFrame:
    """The messages of topics, from the earliest on unless the options give a time.

    Args:
        spark: The session.
        source: The pipeline's own options of the source.
        batch_records_max: The most messages of one micro-batch.
        options: The user's options, which take precedence.
    """
    given = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(batch_records_max),
        **source,
        **(options or {}),
    }
    if "startingTimestamp" in given or "startingOffsetsByTimestamp" in given:
        del given["startingOffsets"]
    return spark.readStream.format("ariane").options(**given).load()


def start_query(writer: DataStreamWriter, *, every: str | None) -> StreamingQuery:
    """Start a query.

    Args:
        writer: The writer of the query.
        every: Run without end, with one micro-batch in each such span (``10 minutes``); ``None``:
            end when all present messages are processed.
    """
    paced = (
        writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    )
    return paced.start()
