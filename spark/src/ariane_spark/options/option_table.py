"""Every option that the data source knows: the table behind parsing, refusing and the README.

Where an option means the same as one of Spark's Kafka source it bears the same name. An option that
comes with a later version stands here too, so that it is refused by name and never ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Use(Enum):
    """The kinds of queries on the data source."""

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
        default: The default, as documented.
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
        "topicsPattern",
        READ,
        "All topics whose whole name matches this regular expression of Python, in place of"
        " `topic`; a stream notices new ones.",
    ),
    Option(
        "assign",
        READ,
        'Certain queues only, in place of `topic`: `{"orders": {"broker-a": [0, 1]}}` or'
        ' `["orders/broker-a/0"]`.',
    ),
    Option(
        "tag",
        READ,
        "Only messages with this tag, or one of several joined by two vertical bars. Filtered in"
        " the broker; limits and lag count what is left out, too.",
        "all messages",
    ),
    Option(
        "filter",
        READ,
        "Only messages whose properties fulfil this condition in SQL92, such as"
        " `origin = 'JFK' AND dep_delay > 60`; not with `tag`, which is the property `TAGS`."
        " Filtered in the broker; limits and lag count what is left out, too.",
        "all messages",
    ),
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
        " ISO 8601 with an offset. For a queue without such a message see"
        " `startingOffsetsByTimestampStrategy`.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        READ,
        "The same with a time for each queue, as JSON in the forms of `startingOffsets`; a queue"
        " that is not named starts at its earliest.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        READ,
        "What a queue does that has no message stored at or after its starting time: `latest`, it"
        " starts at its end; `error`, the query fails.",
        "`latest`",
    ),
    Option(
        "group",
        READ,
        "Start where this consumer group stands. A queue that it has no offset for starts as"
        " `startingOffsets` or one of its siblings says. Counts for a new query only.",
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
        "endingOffsetsByTimestamp",
        (Use.BATCH_READ,),
        "The same with a time for each queue, as JSON; a queue that is not named is read to its"
        " end.",
    ),
    Option(
        "failOnDataLoss",
        READ,
        "Whether to fail when messages that were to be read are not kept any more. If not, they"
        " are skipped, counted and logged.",
        "`true`",
    ),
    Option(
        "onDamagedBody",
        READ,
        "What is done with a message whose compressed body is damaged, where bodies are read:"
        " `fail`, naming the message, or `null` in the column of its body.",
        "`fail`",
    ),
    Option(
        "maxOffsetsPerTrigger",
        (Use.STREAM_READ,),
        "Messages of one micro-batch at most, shared among queues in proportion to their backlog;"
        " at least one of each.",
        "no limit",
    ),
    Option(
        "maxBytesPerTrigger",
        (Use.STREAM_READ,),
        "Bytes of one micro-batch at most, about: brokers estimate them from the newest message of"
        " each queue. At least one message of each.",
        "no limit",
    ),
    Option(
        "minOffsetsPerTrigger",
        (Use.STREAM_READ,),
        "Wait until there are so many messages, but no longer than `maxTriggerDelay`.",
        "1",
    ),
    Option(
        "maxTriggerDelay",
        (Use.STREAM_READ,),
        "How long to wait for `minOffsetsPerTrigger` at most, since the start of the query or its"
        " last micro-batch, such as `500ms`, `10s` or `15m`.",
        "`15m`",
    ),
    Option(
        "commitGroup",
        (Use.STREAM_READ,),
        "Store the progress of the query as that of this consumer group, so that the queue's own"
        " tools show its lag. Nothing ever reads it back: the checkpoint alone counts.",
    ),
    Option(
        "minPartitions",
        READ,
        "Spark partitions at least; large queues are split for it.",
        "as many as tasks run at once, more for large ranges",
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
        "includeProperties",
        READ,
        "Whether the column `properties` is among those where neither `columns` nor a schema is"
        " given.",
        "`true`",
    ),
    Option(
        "fetchMaxBytes",
        READ,
        "About how many bytes of messages make one Arrow batch, 65536 to 4194304; where no bodies"
        " are read, four times as many, but no more than that.",
        "2097152",
    ),
    Option(
        "offsetCacheMs",
        (Use.STREAM_READ,),
        "How long the ends of the queues are remembered between two triggers, in milliseconds.",
        "500",
    ),
    Option(
        "requestTimeoutMs",
        READ,
        "How long one request may take, in milliseconds; and how long a broker may send nothing of"
        " a range before it is asked whether it lives.",
        "10000",
    ),
    Option("numRetries", READ, "How often a request that failed on its way is repeated.", "8"),
    Option(
        "retryBackoffMs",
        READ,
        "Wait before the first repetition, in milliseconds; it doubles each time.",
        "100",
    ),
    Option(
        "otlpEndpoint",
        READ,
        "Collector that is told by OTLP over gRPC which traces a task has read: `http://host:4317`."
        " One span a task, for messages of sampled spans (extra `otlp` of the package).",
        "none",
    ),
    Option(
        "deliveryGuarantee",
        (Use.WRITE,),
        "`at-least-once`: a task ends only when all its messages are acknowledged. `exactly-once`:"
        " the messages of a micro-batch, or of a whole write, become visible together, and once"
        " however often it is repeated.",
        "`at-least-once`",
    ),
    Option(
        "sinkId",
        (Use.WRITE,),
        "Exactly once in streams: tells writes of one query apart that go to the same topic, or to"
        " topics named by a column.",
        "the option `topic`",
    ),
    Option(
        "writeId",
        (Use.WRITE,),
        "Exactly once outside streams: names the write to its topic, so that the whole job may be"
        " repeated and still writes once. Each write needs another one: the same name with other"
        " rows fails.",
        "drawn at random",
    ),
    Option(
        "onChangedBatch",
        (Use.WRITE,),
        "Exactly once: what is done when a micro-batch, or a named write, comes again with other"
        " rows than were committed: `fail`, or `skip` it with a warning and leave what stands.",
        "`fail`",
    ),
    Option(
        "maxInFlight",
        (Use.WRITE,),
        "At least once: requests to one broker under way at the same time, 1 to 64. Exactly once,"
        " each task has one.",
        "1",
    ),
    Option(
        "batchBytes",
        (Use.WRITE,),
        "Bytes of records in one request, 65536 to 3145728.",
        "1048576",
    ),
    Option(
        "compression",
        (Use.WRITE,),
        "Compress large bodies: `lz4`, `zstd` or `zlib`. Readers see them as they were.",
        "`none`",
    ),
    Option(
        "compressBytesMin",
        (Use.WRITE,),
        "Bodies of fewer bytes are never compressed.",
        "4096",
    ),
    Option(
        "compressionLevel",
        (Use.WRITE,),
        "From 1, fast, to 9, small.",
        "5",
    ),
    Option(
        "onBadRow",
        (Use.WRITE,),
        "What becomes of a row that cannot be a message, such as one without a body: `fail`, the"
        " write fails and names it; `deadLetter`, it goes to `deadLetterTopic` as JSON, with the"
        " property `refusedBecause`, and the others are written.",
        "`fail`",
    ),
    Option(
        "deadLetterTopic",
        (Use.WRITE,),
        "Where bad rows go; with `onBadRow=deadLetter` only.",
        "required there",
    ),
    _later(
        "pushdown",
        (Use.BATCH_READ,),
        "Let Spark hand down its filters. Spark 4.3 gives those of one query to all queries over"
        " the same `load()`, which would then miss rows; the option `filter` has no such fault.",
    ),
)

OPTION_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}
"""By name in lower case, which is how Spark hands options over."""

OPTIONS_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark itself adds for writers of streams, in lower case."""

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
"""Options of other connectors that users may try first, in lower case, with our names."""
