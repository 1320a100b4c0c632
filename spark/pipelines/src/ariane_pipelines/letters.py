"""The dead letters of a consumer group as a table: the messages, their errors and origins.

====================  =======================  ====================================================
column                type
====================  =======================  ====================================================
place                 string                   where it lies: broker/queue/offset, as `ariane
                                               dead-letter list` names it
died                  timestamp                when it was given up
topic                 string                   where it was read from first; empty when unknown
reason                string                   ATTEMPTS_EXHAUSTED, REJECTED, CONSUMER_DIED; UNKNOWN
                                               of letters that another broker wrote
lastError             string                   why it failed the last time; may be empty
attempts              int                      how often it was tried
body                  binary
tag                   string                   null without one
keys                  array<string>
messageGroup          string                   null without one
properties            map<string,string>       the application's own
====================  =======================  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from ariane_record import IllegalName
from ariane_record.layout import PropertyName
from ariane_record.names import check_group_name, dead_letter_topic
from ariane_sdk import RESERVED_PROPERTIES
from ariane_sdk.errors import RouteNotFound
from ariane_spark.calls.connection import connect_once
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

UNKNOWN_REASON: Final = "UNKNOWN"

LETTER_SCHEMA: Final = (
    "place string, died timestamp, topic string, reason string, lastError string, attempts int,"
    " body binary, tag string, keys array<string>, messageGroup string,"
    " properties map<string,string>"
)

_READ: Final = (
    *("brokerName", "queueId", "queueOffset", "keys", "tag", "messageGroup", "properties"),
    *("storeTimestamp", "reconsumeTimes", "body"),
)
_OF_THE_SYSTEM: Final = sorted(
    RESERVED_PROPERTIES | {value for name, value in vars(PropertyName).items() if name.isupper()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """A selection of dead letters; a field with its default matches all."""

    topic: str | None = None
    """First consumed from this topic."""
    reason: str | None = None
    """Dead for this reason."""
    since: datetime | None = None
    """Dead at this time or later; with a time zone."""
    until: datetime | None = None
    """Dead before this time; with a time zone."""


ALL_LETTERS: Final = LetterFilter()


def dead_letters(
    spark: SparkSession, endpoints: str, group: str, wanted: LetterFilter = ALL_LETTERS
) -> DataFrame:
    """The dead letters of a consumer group, one row each.

    Args:
        spark: The session.
        endpoints: Name servers, ``host:port``, separated by commas.
        group: The consumer group.
        wanted: The selection.

    Raises:
        OptionIllegal: The name of the group is not legal, or a time has no zone.
        ArianeError: No name server or broker answers.
    """
    given = {
        "endpoints": endpoints,
        "topic": _topic_of(group),
        "columns": ",".join(_READ),
        # Letters of a broker that is away are for the next look.
        "failOnDataLoss": "false",
        **_span(wanted),
    }
    try:
        connect_once(read_options(given, Use.BATCH_READ)).bounds([given["topic"]])
    except RouteNotFound as error:
        if error.away_brokers:
            raise
        return spark.createDataFrame([], LETTER_SCHEMA)
    letters = spark.read.format("ariane").options(**given).load().select(*_columns())
    if wanted.topic is not None:
        letters = letters.where(f.col("topic") == wanted.topic)
    if wanted.reason is not None:
        letters = letters.where(f.col("reason") == wanted.reason)
    return letters


def check_group(group: str) -> None:
    """Check that a group may have dead letters.

    Raises:
        OptionIllegal: Its name is not legal.
    """
    _topic_of(group)


def _topic_of(group: str) -> str:
    try:
        return dead_letter_topic(check_group_name(group))
    except IllegalName as error:
        raise OptionIllegal("group", str(error)) from None


def _span(wanted: LetterFilter) -> dict[str, str]:
    span = {}
    for name, option, moment in (
        ("since", "startingTimestamp", wanted.since),
        ("until", "endingTimestamp", wanted.until),
    ):
        if moment is None:
            continue
        if moment.tzinfo is None:
            raise OptionIllegal(name, "times need a time zone")
        span[option] = moment.astimezone(UTC).isoformat()
    return span


def _columns() -> list[Column]:
    properties = f.col("properties")
    origin = f.coalesce(
        properties[PropertyName.DEAD_LETTER_TOPIC], properties[PropertyName.RETRY_TOPIC], f.lit("")
    )
    reason = f.coalesce(properties[PropertyName.DEAD_LETTER_REASON], f.lit(UNKNOWN_REASON))
    return [
        f.concat_ws("/", "brokerName", "queueId", "queueOffset").alias("place"),
        f.col("storeTimestamp").alias("died"),
        origin.alias("topic"),
        reason.alias("reason"),
        f.coalesce(properties[PropertyName.LAST_ERROR], f.lit("")).alias("lastError"),
        f.col("reconsumeTimes").alias("attempts"),
        f.col("body"),
        f.col("tag"),
        f.col("keys"),
        f.col("messageGroup"),
        f.map_filter(properties, _is_own).alias("properties"),
    ]


def _is_own(name: Column, _value: Column) -> Column:
    return ~name.isin(_OF_THE_SYSTEM)
