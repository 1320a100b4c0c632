"""Event-time sessions per key: events without a longer gap between them, counted and written.

::

    topic  --> key, time of each event --> sessions in Spark's state --> closed ones --> topic
               late by `watermark` at most           gap passed            exactly once

A session is closed, and written once, when the watermark has passed its last event by the gap. The
watermark is the latest time of any event, minus the time that events may be late. Sessions that are
open when a run ends are kept in the checkpoint for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import functions as f

from ariane_pipelines.message_stream import (
    MICRO_BATCH_RECORDS,
    message_stream,
    start_query,
)
from ariane_spark.errors import OptionIllegal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SESSION_TAG: Final = "session"

OBSERVATION: Final = "sessions"
"""The name of the figures of each micro-batch in the progress of the query."""

_OWN_FIELDS: Final = frozenset({"key", "begin", "end", "events"})
_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsPlan:
    """The plan of sessions: their source, their rules, their target.

    Expressions are SQL of Spark over the columns of a message and ``text``, its body as text, such
    as ``get_json_object(text, '$.user')``.
    """

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    topic: str
    """The topic of the events; several are separated by commas."""
    target: str
    """The topic that gets the sessions."""
    checkpoint: str
    """The folder of progress and open sessions: any path or URL that Spark writes to."""
    gap: str
    """The time without an event that ends a session, such as ``30 minutes``."""
    watermark: str
    """The time by which an event may be late, compared to the latest event; later events are not
    counted."""
    key: str = "messageGroup"
    """The key of an event; events without one are left out."""
    time: str = "bornTimestamp"
    """The time of an event; events without one are left out."""
    where: str | None = None
    """A condition; only events that fulfil it count."""
    totals: Mapping[str, str] = field(default_factory=dict)
    """Further fields of a session by name: expressions that aggregate its events."""
    batch_records_max: int = MICRO_BATCH_RECORDS
    """The most messages of one micro-batch."""
    options: Mapping[str, str] | None = None
    """Further options of the source, such as ``commitGroup`` or ``startingTimestamp``."""
    sink_options: Mapping[str, str] | None = None
    """Further options of the sink."""


def start_sessions(
    spark: SparkSession, plan: SessionsPlan, *, every: str | None = None
) -> StreamingQuery:
    """Start to make sessions, from where the checkpoint ends or else from the earliest message.

    Each closed session is one message, exactly once: its key is the session's key, its tag
    ``session``, and its body JSON::

        {"key": "N14228", "begin": "2013-01-01T10:17:00.000000Z",
         "end": "2013-01-01T13:30:00.000000Z", "events": 4, ...totals}

    Begin and end are the times of its first and last event. The number of state partitions,
    ``spark.sql.shuffle.partitions``, is fixed by the first run; a session of
    ``ariane_spark.session`` for one machine needs few, such as 8.

    Args:
        spark: The session of Spark.
        plan: The plan.
        every: Run without end, with one micro-batch in each such span (``10 seconds``); ``None``:
            end when all present messages are processed.

    Returns:
        The running query.

    Raises:
        OptionError: The plan contradicts itself, or cannot be carried out.
    """
    check_plan(plan)
    messages = message_stream(
        spark,
        {"endpoints": plan.endpoints, "topics": plan.topic},
        batch_records_max=plan.batch_records_max,
        options=plan.options,
    )
    writer = (
        sessions_of(messages, plan)
        .writeStream.format("ariane")
        .queryName(f"sessions {plan.topic} to {plan.target}")
        .outputMode("append")
        .options(endpoints=plan.endpoints, topic=plan.target, deliveryGuarantee="exactly-once")
        .options(**(plan.sink_options or {}))
        .option("checkpointLocation", plan.checkpoint)
    )
    return start_query(writer, every=every)


def check_plan(plan: SessionsPlan) -> None:
    """Check a plan before Spark is started for it.

    Raises:
        OptionIllegal: The plan contradicts itself.
    """
    if plan.target in {topic.strip() for topic in plan.topic.split(",")}:
        raise OptionIllegal("target", "is a source: sessions would be events of themselves")
    own = sorted(_OWN_FIELDS.intersection(plan.totals))
    if own:
        raise OptionIllegal("totals", f"{', '.join(own)} are fields of a session already")


def sessions_of(messages: DataFrame, plan: SessionsPlan) -> DataFrame:
    """Closed sessions as rows of the sink.

    Args:
        messages: Messages from the source: a stream; or a table, of which all sessions are closed.
        plan: The plan.

    Raises:
        OptionIllegal: Spark does not understand an expression or a span.
    """
    _check_gap(messages.sparkSession, plan.gap)
    events = messages.withColumn("text", f.col("body").cast("string"))
    if plan.where is not None:
        with _understood("where"):
            events = events.where(plan.where)
    with _understood("key"):
        events = events.withColumn("sessionKey", f.expr(plan.key).cast("string"))
    with _understood("time"):
        events = events.withColumn("eventTime", f.expr(plan.time).cast("timestamp"))
    events = events.where(f.col("sessionKey").isNotNull() & f.col("eventTime").isNotNull())
    with _understood("watermark"):
        events = events.withWatermark("eventTime", plan.watermark)
    groups = events.groupBy(f.session_window("eventTime", plan.gap).alias("window"), "sessionKey")
    with _understood("totals"):
        sessions = groups.agg(
            f.min("eventTime").alias("begin"),
            f.max("eventTime").alias("end"),
            f.count(f.lit(1)).alias("events"),
            *(f.expr(expression).alias(name) for name, expression in plan.totals.items()),
        )
    columns = sessions.select(
        f.to_json(_body(plan), {"timeZone": "UTC", "timestampFormat": _INSTANT}).alias("body"),
        f.lit(SESSION_TAG).alias("tag"),
        f.array("sessionKey").alias("keys"),
        f.col("events"),
    )
    counts = f.count(f.lit(1)).alias("sessions"), f.sum("events").alias("events")
    return columns.observe(OBSERVATION, *counts).drop("events")


def _check_gap(spark: SparkSession, gap: str) -> None:
    """Check that a gap is positive: otherwise Spark reads all events and makes no session.

    Raises:
        OptionIllegal: The gap is not a positive time span.
    """
    moment = "timestamp '2000-01-01 00:00:00'"
    with _understood("gap"):
        longer = spark.sql(f"SELECT {moment} + CAST(:gap AS INTERVAL) > {moment}", {"gap": gap})
        if not longer.collect()[0][0]:
            raise OptionIllegal("gap", f"{gap!r} is no time span such as '30 minutes'")


@contextmanager
def _understood(option: str) -> Iterator[None]:
    """Turn Spark's errors about an expression into one line that names the part of the plan."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException) as error:
        raise OptionIllegal(option, str(error).strip().partition("\n")[0]) from error


@dataclass(slots=True)
class SessionCounts:
    """The figures of a query, over the micro-batches that Spark still knows."""

    message_count: int = 0
    """The number of messages read."""
    session_count: int = 0
    """The number of sessions written."""
    event_count: int = 0
    """The number of their events."""
    late_count: int = 0
    """The number of events that were too late to be counted."""
    open_count: int = 0
    """The number of sessions that are open now."""


def session_counts(query: StreamingQuery) -> SessionCounts:
    """The figures of a query of ``start_sessions``; Spark keeps a hundred micro-batches.

    Args:
        query: The query, running or ended. ``spark.sql.streaming.numRecentProgressUpdates`` sets
            how many micro-batches Spark keeps.
    """
    counts = SessionCounts()
    for progress in query.recentProgress:
        counts.message_count += progress["numInputRows"]
        observed: Any = progress["observedMetrics"].get(OBSERVATION)
        if observed is not None:
            counts.session_count += observed["sessions"]
            counts.event_count += observed["events"] or 0
        for state in progress["stateOperators"]:
            counts.late_count += state["numRowsDroppedByWatermark"]
            counts.open_count = state["numRowsTotal"]
    return counts


def _body(plan: SessionsPlan) -> Column:
    return f.struct(f.col("sessionKey").alias("key"), "begin", "end", "events", *plan.totals)
