"""Replay: sends the messages of a time span, from the queue or an archive, to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as f

from ariane_pipelines.archive import read_archive
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.options import tags_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ORIGIN_PROPERTY: Final = "replayedFrom"
"""The property with the message that a replayed one repeats: topic/broker/queue/offset."""

_COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys", "tag", "messageGroup"),
    *("properties", "storeTimestamp", "body"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The plan of a replay."""

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    source: str
    """The topic to read."""
    target: str
    """The topic that gets its messages."""
    since: datetime
    """Only messages stored at this time or later; with a time zone."""
    until: datetime
    """Only messages stored before this time."""
    tag: str | None = None
    """Only messages with this tag, or one of several joined by ``||``."""
    archive: str | None = None
    """Folder of an archive to read instead of the queue."""
    target_endpoints: str | None = None
    """Name servers of the target, if it is in another cluster."""
    options: Mapping[str, str] | None = None
    """Further options of the sink."""


def replay(spark: SparkSession, plan: ReplayPlan) -> int:
    """Send the messages of a time span again.

    Body, tag, keys, message group and properties are those of the original message, which the
    property ``replayedFrom`` names. The messages of one queue are sent in their order, and a
    message group is in one queue.

    Args:
        spark: The session.
        plan: The plan.

    Returns:
        The number of sent messages.

    Raises:
        OptionError: The plan contradicts itself, or cannot be carried out.
    """
    check_plan(plan)
    messages = _from_queue(spark, plan) if plan.archive is None else _from_archive(spark, plan)
    seen = Observation("replay")
    (
        messages.select(
            "body",
            f.coalesce("tag", f.lit("")).alias("tag"),
            "keys",
            "messageGroup",
            f.map_zip_with(
                "properties", f.create_map(f.lit(ORIGIN_PROPERTY), _origin()), _latter
            ).alias("properties"),
        )
        .observe(seen, f.count(f.lit(1)).alias("count"))
        .write.format("ariane")
        .mode("append")
        .options(
            endpoints=plan.target_endpoints or plan.endpoints,
            topic=plan.target,
            **(plan.options or {}),
        )
        .save()
    )
    return int(seen.get["count"])


def check_plan(plan: ReplayPlan) -> None:
    """Check a plan before Spark is started for it.

    Raises:
        OptionIllegal: The plan contradicts itself.
    """
    if plan.since.tzinfo is None or plan.until.tzinfo is None:
        raise OptionIllegal("since", "times need a time zone")
    if plan.until <= plan.since:
        raise OptionIllegal("until", f"{plan.until} is not behind {plan.since}")
    replayed_tags(plan.tag)
    same_cluster = plan.target_endpoints in {None, plan.endpoints}
    if plan.source == plan.target and same_cluster and plan.archive is None:
        raise OptionIllegal("target", "is the source: a replay into itself would be replayed again")


def replayed_tags(text: str | None) -> frozenset[str]:
    """The tags of a plan, for the queue and for an archive; none: all messages.

    Raises:
        OptionIllegal: The text does not have the form of the option ``tag``.
    """
    return tags_of(text and text.strip())


def _from_queue(spark: SparkSession, plan: ReplayPlan) -> DataFrame:
    given = {
        "endpoints": plan.endpoints,
        "topic": plan.source,
        "columns": ",".join(_COLUMNS),
        "startingTimestamp": plan.since.astimezone(UTC).isoformat(),
        "endingTimestamp": plan.until.astimezone(UTC).isoformat(),
    }
    if plan.tag is not None:
        given["tag"] = plan.tag
    return spark.read.format("ariane").options(**given).load()


def _from_archive(spark: SparkSession, plan: ReplayPlan) -> DataFrame:
    since, until = plan.since.astimezone(UTC), plan.until.astimezone(UTC)
    messages = read_archive(spark, str(plan.archive)).where(
        (f.col("topic") == plan.source)
        & f.col("date").between(f.lit(since.date()), f.lit(until.date()))
        & (f.col("storeTimestamp") >= f.lit(since))
        & (f.col("storeTimestamp") < f.lit(until))
    )
    tags = replayed_tags(plan.tag)
    if tags:
        messages = messages.where(f.col("tag").isin(sorted(tags)))
    # Files are read in any order.
    return messages.repartition("brokerName", "queueId").sortWithinPartitions(
        "brokerName", "queueId", "queueOffset"
    )


def _origin() -> Column:
    return f.concat_ws("/", "topic", "brokerName", "queueId", "queueOffset")


def _latter(_name: Column, first: Column, second: Column) -> Column:
    return f.coalesce(second, first)
