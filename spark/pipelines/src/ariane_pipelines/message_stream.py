"""Queries over the messages of topics as they come: how they begin, and how long they go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MICRO_BATCH_RECORDS: Final = 1_000_000
"""Messages of one micro-batch: what bounds its time, and the number of files of an archive."""


def message_stream(
    spark: SparkSession,
    source: Mapping[str, str],
    *,
    batch_records_max: int,
    options: Mapping[str, str] | None,
) -> DataFrame:
    """The messages of topics, from the earliest on unless the options say a time.

    Args:
        spark: The session.
        source: Where they are: options of the source that the pipeline itself gives.
        batch_records_max: Messages of one micro-batch at most.
        options: Those that its user gives, which count for more.
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
        writer: What it reads, makes of it, and writes.
        every: Go on for ever, a micro-batch in each such span (``10 minutes``); ``None``: until
            everything is done that is there now.
    """
    paced = (
        writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    )
    return paced.start()
