"""The paths of traces through topics: the messages with one W3C trace context, step by step.

Producers with OpenTelemetry put the context into the property ``traceparent``; messages that a
listener sends while it handles a message belong to the same trace. So do the copies of a message in
retry topics, and dead letters. Brokers do not store when a group consumed a message; the group's
offsets show whether it has by now, and the application's own spans show when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from ariane_record.layout import PropertyName
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from ariane_sdk import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

TRACE_COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "tag", "messageId", "properties"),
    *("bornTimestamp", "storeTimestamp"),
)

TRACES_SHOWN: Final = 10
STEPS_SHOWN: Final = 20

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRACE_PARENT: Final = "^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}"

Positions = Mapping[MessageQueue, Mapping[str, int]]
"""The next queue offset that each group will consume, queue by queue."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One message of a trace."""

    topic: str
    """Its topic, which may be the retry topic or the dead letters of a group."""
    place: str
    """``broker/queue/offset`` in the topic."""
    message_id: str
    """Its id."""
    tag: str | None
    """Its tag; ``None`` without one."""
    born: datetime
    """When its producer made it."""
    stored: datetime
    """When it was stored."""
    consumed_by: Sequence[str]
    """Groups whose offset is past it now."""
    waited_for_by: Sequence[str]
    """Groups whose offset is not past it."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """One trace in the span of a report."""

    trace_id: str
    """The id of the trace: 32 hex digits."""
    message_count: int
    """The number of its messages."""
    seconds: float
    """From the birth of the first message to the store time of the last."""
    steps: Sequence[TraceStep]
    """The first twenty of its messages, in the order in which they were stored."""


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """The traces in the span of a report."""

    traced_count: int = 0
    """The number of messages with a trace, including retries and dead letters."""
    trace_count: int = 0
    """The number of traces."""
    longest: Sequence[TraceFacts] = ()
    """The traces that took longest."""


def collect_traces(
    spark: SparkSession, given: Mapping[str, str], topics: Sequence[str], positions: Positions
) -> TraceSummary:
    """Follow the traces of some topics.

    Args:
        spark: The session.
        given: The options for the cluster and the time span.
        topics: The topics, including retry topics and dead letters.
        positions: The offsets of consumer groups.
    """
    if not topics:
        return TraceSummary()
    reader = spark.read.format("ariane").options(**given)
    messages = reader.options(topics=",".join(topics), columns=",".join(TRACE_COLUMNS)).load()
    traced = (
        messages.where(_of_these(topics))
        .withColumn("trace", f.regexp_extract(f.col("properties")["traceparent"], _TRACE_PARENT, 1))
        .where(f.col("trace") != "")
        .drop("properties")
        .persist()
    )
    try:
        ways = traced.groupBy("trace").agg(
            f.count(f.lit(1)).alias("count"),
            (f.max(f.unix_micros("storeTimestamp")) - f.min(f.unix_micros("bornTimestamp"))).alias(
                "microseconds"
            ),
        )
        totals = ways.agg(f.coalesce(f.sum("count"), f.lit(0)), f.count(f.lit(1))).collect()[0]
        longest = ways.orderBy(f.desc("microseconds"), "trace").limit(TRACES_SHOWN).collect()
        steps = _steps(traced, [row.trace for row in longest], positions)
    finally:
        traced.unpersist()
    facts = [
        TraceFacts(row.trace, row["count"], row.microseconds / 1e6, steps[row.trace])
        for row in longest
    ]
    return TraceSummary(totals[0], totals[1], facts)


def is_of_group(topic: str) -> bool:
    """Whether a topic is a retry topic or has dead letters."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def _of_these(topics: Sequence[str]) -> Column:
    """Keep copies that were made for groups only if their original topic is wanted."""
    plain = [topic for topic in topics if not is_of_group(topic)]
    origin = f.col("properties")[PropertyName.RETRY_TOPIC]
    return f.col("topic").isin(plain) | origin.isin(plain)


def _steps(
    traced: DataFrame, trace_ids: Sequence[str], positions: Positions
) -> dict[str, list[TraceStep]]:
    steps: dict[str, list[TraceStep]] = {trace_id: [] for trace_id in trace_ids}
    if not trace_ids:
        return steps
    # No more steps of each trace than are shown, however long it is.
    first = (
        traced.where(f.col("trace").isin(list(trace_ids)))
        .groupBy("trace")
        .agg(
            f.slice(
                f.array_sort(
                    f.collect_list(
                        f.struct(
                            f.unix_micros("storeTimestamp").alias("stored"),
                            *("topic", "brokerName", "queueId", "queueOffset", "tag", "messageId"),
                            f.unix_micros("bornTimestamp").alias("born"),
                        )
                    )
                ),
                1,
                STEPS_SHOWN,
            ).alias("steps")
        )
    )
    for row in first.collect():
        steps[row.trace] = [_step(each, positions) for each in row.steps]
    return steps


def _step(row: Row, positions: Positions) -> TraceStep:
    groups = positions.get(MessageQueue(row.topic, row.brokerName, row.queueId), {})
    return TraceStep(
        topic=row.topic,
        place=f"{row.brokerName}/{row.queueId}/{row.queueOffset}",
        message_id=row.messageId,
        tag=row.tag,
        born=_moment(row.born),
        stored=_moment(row.stored),
        consumed_by=sorted(name for name, at in groups.items() if at > row.queueOffset),
        waited_for_by=sorted(name for name, at in groups.items() if at <= row.queueOffset),
    )


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
