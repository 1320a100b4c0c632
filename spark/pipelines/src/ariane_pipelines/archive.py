"""Topics into Parquet files, by date and topic, each message once.

Spark's file sink keeps its own log of what it wrote, so a micro-batch that is repeated after a
crash adds nothing. The archive is a folder that any reader of Parquet understands::

    archive/date=2013-02-08/topic=flights/part-....parquet     the day of UTC it was stored
    archive/_spark_metadata/    the list of the archive's files; Spark reads no others
    archive/_checkpoint/        its progress
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from ariane_pipelines.message_stream import (
    MICRO_BATCH_RECORDS,
    message_stream,
    start_query,
)
from ariane_spark.errors import OptionIllegal
from ariane_spark.records.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILE_RECORDS_MAX: Final = 1_000_000
"""The most messages of one file."""

_SECONDS_PER_DAY: Final = 86_400

CHECKPOINT_FOLDER: Final = "_checkpoint"

_NOTHING_THERE: Final = frozenset({"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"})
"""Spark's errors if there is no Parquet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlan:
    """The plan of an archive: topics, folder, limits."""

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    folder: str
    """The folder of a new or existing archive: any path or URL that Spark writes to."""
    topics: tuple[str, ...] = ()
    """The topics; or else ``pattern``."""
    pattern: str | None = None
    """Topics by regular expression."""
    files_max: int = 1
    """The most files of one date and topic in one micro-batch. One keeps them few; more let as many
    tasks write one topic at the same time."""
    batch_records_max: int = MICRO_BATCH_RECORDS
    """The most messages of one micro-batch."""
    checkpoint: str | None = None
    """The folder of its progress; by default in the archive itself."""
    options: Mapping[str, str] | None = None
    """Further options of the source, such as ``commitGroup`` or ``startingTimestamp``."""


def start_archive(
    spark: SparkSession, plan: ArchivePlan, *, every: str | None = None
) -> StreamingQuery:
    """Start to archive, from where the archive ends or else from the earliest message.

    Only one query may write an archive at a time.

    Args:
        spark: The session.
        plan: The plan.
        every: Run without end, with one micro-batch in each such span (``10 minutes``); ``None``:
            end when all present messages are archived.

    Returns:
        The running query.

    Raises:
        OptionError: The plan names no topics, or both topics and a pattern.
    """
    if bool(plan.topics) == bool(plan.pattern):
        raise OptionIllegal("topics", "name topics, or a pattern, and not both")
    columns = [column.field.name for column in COLUMNS]
    messages = message_stream(
        spark,
        {"endpoints": plan.endpoints, "columns": ",".join(columns), **_selection(plan)},
        batch_records_max=plan.batch_records_max,
        options=plan.options,
    )
    writer = (
        _dealt_out(messages, plan.files_max)
        .writeStream.format("parquet")
        .queryName(f"archive {plan.pattern or ','.join(plan.topics)}")
        .partitionBy("date", "topic")
        .option("path", plan.folder)
        .option("maxRecordsPerFile", FILE_RECORDS_MAX)
        .option("checkpointLocation", plan.checkpoint or f"{plan.folder}/{CHECKPOINT_FOLDER}")
    )
    return start_query(writer, every=every)


def read_archive(spark: SparkSession, folder: str) -> DataFrame:
    """The messages of an archive: the columns of a topic, and ``date``.

    Args:
        spark: The session.
        folder: The folder of the archive.

    Raises:
        OptionIllegal: There is no archive, or it is empty.
    """
    # A topic may be called 42, which must stay a text.
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        messages = spark.read.parquet(folder)
    except AnalysisException as error:
        if error.getCondition() not in _NOTHING_THERE:
            raise
        raise OptionIllegal("archive", f"nothing is archived in {folder}") from None
    finally:
        spark.conf.set(setting, str(before))
    names = [column.field.name for column in COLUMNS]
    return messages.select(f.col("date").cast("date").alias("date"), *names)


def _selection(plan: ArchivePlan) -> dict[str, str]:
    if plan.pattern is not None:
        return {"topicsPattern": plan.pattern}
    return {"topics": ",".join(plan.topics)}


def _dealt_out(messages: DataFrame, files_max: int) -> DataFrame:
    """Put the messages of one date and topic into few tasks, so that they make few files."""
    # Dates are in UTC, independent of the session's time zone in this and other runs.
    days = f.floor(f.unix_seconds("storeTimestamp") / _SECONDS_PER_DAY).cast("int")
    dated = messages.withColumn("date", f.date_from_unix_date(days))
    keys = [f.col("date"), f.col("topic")]
    if files_max > 1:
        keys.append(f.pmod(f.hash("brokerName", "queueId"), f.lit(files_max)))
    return dated.repartition(*keys)
