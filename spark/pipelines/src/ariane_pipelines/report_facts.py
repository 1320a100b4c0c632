"""The facts of a report: counted by Spark from headers alone, and requested from brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ariane_pipelines.report_traces import (
    Positions,
    TraceSummary,
    collect_traces,
    is_of_group,
)
from ariane_sdk import MessageQueue
from ariane_sdk.sync import ClusterClient
from ariane_spark.calls.connection import connect_once
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.queue_selection import TopicPattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic in the span of a report."""

    topic: str
    """The topic."""
    message_count: int
    """Messages stored in the span."""
    journey_ms: tuple[float, float]
    """How long messages took from the producer to the store, in milliseconds: the median and the
    99th percentile, by the clocks of both."""
    again_count: int
    """Messages that had been consumed before without success."""
    rates: Sequence[int]
    """Messages stored in each step of the span."""


@dataclass(frozen=True, slots=True)
class TagFacts:
    """One tag of one topic in the span of a report; ``None`` where messages have no tag."""

    topic: str
    tag: str | None
    message_count: int


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The present backlog of a consumer group in one topic."""

    group: str
    """The consumer group."""
    topic: str
    """The topic."""
    lag: int
    """The number of messages that it has not consumed."""
    oldest: datetime | None
    """The store time of the oldest of them; ``None`` without a backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """All facts of a report."""

    since: datetime
    """Begin of its span."""
    until: datetime
    """End of its span, exclusive."""
    step: timedelta
    """Length of the steps of rates."""
    topics: Sequence[TopicFacts]
    """The topics by name."""
    tags: Sequence[TagFacts]
    """The tags by topic, the most frequent first."""
    groups: Sequence[GroupFacts]
    """The groups, the largest lag first."""
    traces: TraceSummary
    """The paths of traces."""


def collect_facts(
    spark: SparkSession,
    endpoints: str,
    pattern: str,
    *,
    since: datetime,
    until: datetime,
    step_count: int = 60,
) -> ReportFacts:
    """Count the messages stored in a time span, and request the offsets of consumer groups.

    Args:
        spark: The session.
        endpoints: Name servers, ``host:port``, separated by commas.
        pattern: Topics by regular expression.
        since: Begin of the span, with a time zone.
        until: End of the span, exclusive.
        step_count: The number of steps of rates.

    Raises:
        OptionError: The pattern is not a regular expression.
        ArianeError: A name server or broker does not answer.
    """
    span = {
        "endpoints": endpoints,
        "startingTimestamp": since.isoformat(),
        "endingTimestamp": until.isoformat(),
        # Above all where brokers are away, somebody wants a report.
        "failOnDataLoss": "false",
    }
    given = {
        **span,
        "topicsPattern": pattern,
        "columns": "topic,tag,bornTimestamp,storeTimestamp,reconsumeTimes",
    }
    step = (until - since) / step_count
    catalog = connect_once(read_options(given, Use.BATCH_READ))
    selection = TopicPattern(pattern)
    names = [topic for topic in catalog.topics() if selection.admits(topic)]
    counted: dict[str, TopicFacts] = {}
    tags: list[TagFacts] = []
    if names:
        counted, tags = _counted(spark, given, since, step, step_count)
    groups, positions, of_groups = _groups(endpoints, selection)
    nothing = [0] * step_count
    return ReportFacts(
        since=since,
        until=until,
        step=step,
        topics=[counted.get(n, TopicFacts(n, 0, (0.0, 0.0), 0, nothing)) for n in names],
        tags=tags,
        groups=groups,
        traces=collect_traces(spark, span, [*names, *of_groups] if names else [], positions),
    )


def _counted(
    spark: SparkSession,
    given: dict[str, str],
    since: datetime,
    step: timedelta,
    step_count: int,
) -> tuple[dict[str, TopicFacts], list[TagFacts]]:
    """Count the headers in one pass, grouped as finely as the report needs: few rows remain."""
    begin_us, step_us = round(since.timestamp() * 1_000_000), step / timedelta(microseconds=1)
    place = f.floor((f.unix_micros("storeTimestamp") - f.lit(begin_us)) / f.lit(step_us))
    journey_ms = (f.unix_micros("storeTimestamp") - f.unix_micros("bornTimestamp")) / 1000
    messages = spark.read.format("ariane").options(**given).load()
    messages = messages.select(
        "topic",
        "tag",
        journey_ms.alias("journey_ms"),
        f.least(f.greatest(place, f.lit(0)), f.lit(step_count - 1)).alias("place"),
        (f.col("reconsumeTimes") > 0).cast("int").alias("again"),
    ).persist()
    try:
        by_topic = (
            messages.groupBy("topic")
            .agg(
                f.count(f.lit(1)).alias("count"),
                f.percentile_approx("journey_ms", [0.5, 0.99]).alias("journey_ms"),
                f.sum("again").alias("again"),
            )
            .collect()
        )
        rates: dict[str, list[int]] = {row.topic: [0] * step_count for row in by_topic}
        for row in messages.groupBy("topic", "place").count().collect():
            rates[row.topic][row.place] = row["count"]
        by_tag = messages.groupBy("topic", "tag").count().collect()
    finally:
        messages.unpersist()
    topics = {
        row.topic: TopicFacts(
            row.topic, row["count"], tuple(row.journey_ms), row.again, rates[row.topic]
        )
        for row in by_topic
    }
    tags = [TagFacts(row.topic, row.tag, row["count"]) for row in by_tag]
    return topics, sorted(tags, key=lambda t: (t.topic, -t.message_count, t.tag or ""))


def _groups(
    endpoints: str, selection: TopicPattern
) -> tuple[list[GroupFacts], Positions, list[str]]:
    """The lags of groups by topic; their positions; their retry and dead-letter topics."""
    facts = []
    positions: dict[MessageQueue, dict[str, int]] = {}
    with ClusterClient(endpoints) as client:
        lags: dict[tuple[str, str], list[tuple[int, datetime | None]]] = {}
        for lag in client.consumer_lag():
            positions.setdefault(lag.message_queue, {})[lag.group] = lag.consumer_offset
            if selection.admits(lag.message_queue.topic):
                entry = (lag.message_count, lag.oldest_store_time)
                lags.setdefault((lag.group, lag.message_queue.topic), []).append(entry)
        for (group, topic), entries in lags.items():
            times = [oldest for _, oldest in entries if oldest is not None]
            total = sum(count for count, _ in entries)
            facts.append(GroupFacts(group, topic, total, min(times, default=None)))
        of_groups = [name for name in client.list_topics(include_system=True) if is_of_group(name)]
    facts.sort(key=lambda fact: (-fact.lag, fact.group, fact.topic))
    return facts, positions, of_groups
