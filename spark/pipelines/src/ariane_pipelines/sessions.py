"""Event-time sessions per key: what follows one another without a longer gap, counted and told.

::

    topic  --> key, time of each event --> sessions in Spark's state --> closed ones --> topic
               late by `watermark` at most           gap passed            exactly once

A session is closed, and told once, when the watermark has passed its last event by the gap. The
watermark is the latest time of any event, less what events may be late. Sessions that are open when
a run ends wait in the checkpoint for the next one.
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
"""Names what each micro-batch tells of its sessions in the progress of the query."""

_OWN_FIELDS: Final = frozenset({"key", "begin", "end", "events"})
_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsPlan:
    """Which sessions, of what, and where they go.

    Expressions are SQL of Spark over the columns of a message and ``text``, its body as text, such
    as ``get_json_object(text, '$.user')``.

    Attributes:
        endpoints: Name servers, ``host:port``, separated by commas.
        topic: The topic of the events; several are separated by commas.
        target: The topic that gets the sessions.
        checkpoint: Where progress and open sessions are kept: any folder or URL that Spark writes
            to.
        gap: So long without an event ends a session, such as ``30 minutes``.
        watermark: So much later than the latest event an earlier one may come; what comes later is
            not counted.
        key: Whose event it is; events without one are left out.
        time: When it happened; events without a time are left out.
        where: A condition; only events that it holds for.
        totals: Further fields of a session by name: expressions that aggregate its events.
        batch_records_max: Messages of one micro-batch at most.
        options: Further options of the source, such as ``commitGroup`` or ``startingTimestamp``.
        sink_options: Further options of the sink.
    """

    endpoints: str
    topic: str
    target: str
    checkpoint: str
    gap: str
    watermark: str
    key: str = "messageGroup"
    time: str = "bornTimestamp"
    where: str | None = None
    totals: Mapping[str, str] = field(default_factory=dict)
    batch_records_max: int = MICRO_BATCH_RECORDS
    options: Mapping[str, str] | None = None
    sink_options: Mapping[str, str] | None = None


def start_sessions(
    spark: SparkSession, plan: SessionsPlan, *, every: str | None = None
) -> StreamingQuery:
    """Start to make sessions, from where the checkpoint ends or else from the earliest message.

    Each closed session is one message, exactly once: its key is the session's key, its tag
    ``session``, and its body JSON::

        {"key": "N14228", "begin": "2013-01-01T10:17:00.000000Z",
         "end": "2013-01-01T13:30:00.000000Z", "events": 4, ...totals}

    Begin and end are the times of its first and last event. The number of state partitions,
    ``spark.sql.shuffle.partitions``, is that of the first run for ever; a session of
    ``ariane_spark.session`` for one machine wants few, such as 8.

    Args:
        spark: The session of Spark.
        plan: What to do.
        every: Go on for ever, a micro-batch in each such span (``10 seconds``); ``None``: until
            everything is done that is there now.

    Returns:
        The query, which runs.

    Raises:
        OptionError: The plan contradicts itself, or cannot be obeyed.
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
    """See that a plan makes sense, before Spark is started for it.

    Raises:
        OptionIllegal: It does not.
    """
    if plan.target in {topic.strip() for topic in plan.topic.split(",")}:
        raise OptionIllegal("target", "is a source: sessions would be events of themselves")
    own = sorted(_OWN_FIELDS.intersection(plan.totals))
    if own:
        raise OptionIllegal("totals", f"{', '.join(own)} are fields of a session already")


def sessions_of(messages: DataFrame, plan: SessionsPlan) -> DataFrame:
    """Closed sessions as rows of the sink.

    Args:
        messages: As the source gives them; a stream, or a table, of which all sessions are told.
        plan: Key, time, gap, totals.

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
    told = sessions.select(
        f.to_json(_body(plan), {"timeZone": "UTC", "timestampFormat": _INSTANT}).alias("body"),
        f.lit(SESSION_TAG).alias("tag"),
        f.array("sessionKey").alias("keys"),
        f.col("events"),
    )
    counts = f.count(f.lit(1)).alias("sessions"), f.sum("events").alias("events")
    return told.observe(OBSERVATION, *counts).drop("events")


def _check_gap(spark: SparkSession, gap: str) -> None:
    """See that a gap has a length: with another, Spark takes all events and makes nothing of them.

    Raises:
        OptionIllegal: It has none.
    """
    moment = "timestamp '2000-01-01 00:00:00'"
    with _understood("gap"):
        longer = spark.sql(f"SELECT {moment} + CAST(:gap AS INTERVAL) > {moment}", {"gap": gap})
        if not longer.collect()[0][0]:
            raise OptionIllegal("gap", f"{gap!r} is no time span such as '30 minutes'")


@contextmanager
def _understood(option: str) -> Iterator[None]:
    """Say in one line which part of a plan Spark does not understand."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException) as error:
        raise OptionIllegal(option, str(error).strip().partition("\n")[0]) from error


@dataclass(slots=True)
class SessionCounts:
    """What a query has done in the micro-batches that are still known.

    Attributes:
        message_count: Messages that were read.
        session_count: Sessions that were told.
        event_count: Their events.
        late_count: Events that came too late to be counted.
        open_count: Sessions that are open now.
    """

    message_count: int = 0
    session_count: int = 0
    event_count: int = 0
    late_count: int = 0
    open_count: int = 0


def session_counts(query: StreamingQuery) -> SessionCounts:
    """Count what a query of ``start_sessions`` has done; Spark keeps a hundred micro-batches.

    Args:
        query: Running or ended. ``spark.sql.streaming.numRecentProgressUpdates`` says how many
            micro-batches are kept.
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
