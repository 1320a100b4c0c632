"""Every option that the data source knows: the table behind parsing, refusing and the README.

Where an option means the same as one of Spark's Kafka source it bears the same name. An option that
comes with a later version stands here too, so that it is refused by name and never ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Use(Enum):
    """What a query does with the data source."""

    BATCH_READ = "batch read"
    STREAM_READ = "stream read"
    WRITE = "write"


READ: Final = (Use.BATCH_READ, Use.STREAM_READ)
EVERYWHERE: Final = tuple(Use)


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: As users write it; Spark does not mind the case.
        uses: Where it may be given.
        meaning: One sentence for the documentation, with unit and range.
        default: What holds without it, as documented.
        later: Whether it is known, but refused until a later version.
    """

    name: str
    uses: tuple[Use, ...]
    meaning: str
    default: str = ""
    later: bool = False


def _later(name: str, uses: tuple[Use, ...], meaning: str) -> Option:
    return Option(name, uses, meaning, later=True)


OPTIONS: Final = (
    Option(
        "endpoints",
        EVERYWHERE,
        "Name servers, `host:port`, separated by commas.",
        "required",
    ),
    Option(
        "topic",
        EVERYWHERE,
        "The topic. When writing, it counts more than the column of that name.",
        "required to read; to write, the column `topic`",
    ),
    Option("topics", READ, "Several topics, separated by commas, in place of `topic`."),
    Option(
        "startingOffsets",
        READ,
        "`earliest`, `latest` (streams only) or JSON,"
        ' `{"orders": {"broker-a": {"0": 23}}}` or `{"orders/broker-a/0": 23}`, with -1 for the'
        " latest and -2 for the earliest; a queue that is not named starts at its earliest."
        " Counts for a new query only: one with a checkpoint goes on from there.",
        "`latest` for streams, else `earliest`",
    ),
    Option(
        "startingTimestamp",
        READ,
        "Start with the first message stored at or after this time: milliseconds since 1970, or"
        " ISO 8601 with an offset. A queue without such a message starts at its end.",
    ),
    Option(
        "endingOffsets",
        (Use.BATCH_READ,),
        "`latest` or JSON; the end itself is not read. A queue that is not named is read to its"
        " end.",
        "`latest`",
    ),
    Option(
        "endingTimestamp",
        (Use.BATCH_READ,),
        "End before the first message stored at or after this time.",
    ),
    Option(
        "failOnDataLoss",
        READ,
        "Whether to fail when messages that were to be read are not kept any more. If not, they"
        " are skipped, counted and logged.",
        "`true`",
    ),
    Option(
        "maxOffsetsPerTrigger",
        (Use.STREAM_READ,),
        "Messages of one micro-batch at most, shared among queues in proportion to their backlog;"
        " at least one of each.",
        "no limit",
    ),
    Option(
        "minPartitions",
        READ,
        "Spark partitions at least; large queues are split for it.",
        "as many as cores, more for large ranges",
    ),
    Option("maxPartitions", READ, "Spark partitions at most.", "number of queues"),
    Option(
        "maxRecordsPerPartition",
        READ,
        "Messages of one queue in one Spark partition at most; larger ranges are split.",
        "no limit",
    ),
    Option(
        "columns",
        READ,
        "Which columns, separated by commas, where no schema is given. Bodies that are not asked"
        " for are not fetched.",
        "all but `brokerName`",
    ),
    Option(
        "fetchMaxBytes",
        READ,
        "About how many bytes of messages make one Arrow batch, 65536 to 4194304.",
        "1048576",
    ),
    Option(
        "offsetCacheMs",
        (Use.STREAM_READ,),
        "How long the ends of the queues are remembered between two triggers, in milliseconds.",
        "500",
    ),
    Option("requestTimeoutMs", READ, "How long one request may take, in milliseconds.", "10000"),
    Option("numRetries", READ, "How often a request that failed on its way is repeated.", "8"),
    Option(
        "retryBackoffMs",
        READ,
        "Wait before the first repetition, in milliseconds; it doubles each time.",
        "100",
    ),
    Option(
        "deliveryGuarantee",
        (Use.WRITE,),
        "`at-least-once`: a task ends only when all its messages are acknowledged. `exactly-once`"
        " comes later.",
        "`at-least-once`",
    ),
    _later("topicsPattern", READ, "Topics by regular expression."),
    _later("assign", READ, "Certain queues only."),
    _later("tag", READ, "Only messages with one of these tags, filtered in the broker."),
    _later("filter", READ, "Only messages that a SQL condition holds for."),
    _later("startingOffsetsByTimestamp", READ, "A start time for each queue."),
    _later("startingOffsetsByTimestampStrategy", READ, "What a queue without such a time does."),
    _later("endingOffsetsByTimestamp", (Use.BATCH_READ,), "An end time for each queue."),
    _later("maxBytesPerTrigger", (Use.STREAM_READ,), "Bytes of one micro-batch at most."),
    _later("minOffsetsPerTrigger", (Use.STREAM_READ,), "Wait until there are so many messages."),
    _later("maxTriggerDelay", (Use.STREAM_READ,), "How long to wait for them at most."),
    _later("group", READ, "Start where this consumer group is."),
    _later("commitGroup", (Use.STREAM_READ,), "Store progress for this group, to show lag."),
    _later("includeProperties", READ, "Leave the properties out; until then, `columns`."),
    _later("pushdown", (Use.BATCH_READ,), "Let Spark hand down its filters."),
    _later("sinkId", (Use.WRITE,), "Names this sink among those of one query."),
    _later("writeId", (Use.WRITE,), "Makes a batch write repeatable as a whole."),
    _later("maxInFlight", (Use.WRITE,), "Requests under way at the same time."),
    _later("batchBytes", (Use.WRITE,), "Bytes of one request."),
    _later("compression", (Use.WRITE,), "Compress bodies."),
)

OPTION_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}
"""By name in lower case, which is how Spark hands options over."""

FOREIGN_NAMES: Final = {
    "kafka.bootstrap.servers": "endpoints",
    "nameserver": "endpoints",
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
    "subexpression": "tag",
    "includeheaders": "includeProperties",
    "kafka.group.id": "group",
    "path": "topic",
}
"""What users of other connectors may try first, in lower case, and what it is called here."""
