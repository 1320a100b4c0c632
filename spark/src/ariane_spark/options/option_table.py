"""All options of the data source: the table for parsing, refusals and the README.

An option that means the same as one of Spark's Kafka source has the same name. Options planned for
a later version are listed too, so that they are refused by name and never ignored.
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
    """One option."""

    name: str
    """Its name; the case does not matter."""
    uses: tuple[Use, ...]
    """The uses in which it may be given."""
    meaning: str
    """One sentence for the documentation, with unit and range."""
    default: str = ""
    """The default, as documented."""
    later: bool = False
    """Whether it is planned for a later version, and refused until then."""


def _later(name: str, uses: tuple[Use, ...], meaning: str) -> Option:
    return Option(name, uses, meaning, later=True)


OPTIONS: Final = (
    Option(
        "endpoints",
        EVERYWHERE,
        "Name servers, `host:port`, separated by commas; or `dns:host:port`, `file:path` or a URL,"
        " which are read again every 30 s.",
        "required",
    ),
    Option(
        "tlsCa",
        EVERYWHERE,
        "The authority of a cluster with TLS, `members.pem` of `ariane tls`: a file on the driver,"
        " or its text.",
        "the file that `ARIANE_TLS_CA` names",
    ),
    Option(
        "accessKey",
        EVERYWHERE,
        "The key that the driver logs in by, of `ariane credential create`: a file on the driver,"
        " or its text. Tasks never get it. Spark hides an option of this name.",
        "the file that `ARIANE_CREDENTIALS` names",
    ),
    Option(
        "keyLifetime",
        EVERYWHERE,
        "How long the keys hold that tasks get, each for a plan of a read or write: `1m` to"
        " `168h`. A stream makes new ones for each micro-batch.",
        "`24h`",
    ),
    Option(
        "topic",
        EVERYWHERE,
        "The topic. When writing, it takes precedence over the column of that name.",
        "required to read; to write, the column `topic`",
    ),
    Option("topics", READ, "Several topics, separated by commas, in place of `topic`."),
    Option(
        "topicsPattern",
        READ,
        "All topics whose whole name matches this regular expression (Python), in place of"
        " `topic`; a stream notices new topics.",
    ),
    Option(
        "assign",
        READ,
        'Only these queues, in place of `topic`: `{"orders": {"broker-a": [0, 1]}}` or'
        ' `["orders/broker-a/0"]`.',
    ),
    Option(
        "tag",
        READ,
        "Only messages with this tag, or one of several joined by two vertical bars. Filtered in"
        " the broker; limits and lag count rejected messages, too.",
        "all messages",
    ),
    Option(
        "filter",
        READ,
        "Only messages whose properties fulfil this condition in SQL92, such as"
        " `origin = 'JFK' AND dep_delay > 60`; not with `tag`, which is the property `TAGS`."
        " Filtered in the broker; limits and lag count rejected messages, too.",
        "all messages",
    ),
    Option(
        "startingOffsets",
        READ,
        "`earliest`, `latest` (streams only) or JSON,"
        ' `{"orders": {"broker-a": {"0": 23}}}` or `{"orders/broker-a/0": 23}`, with -1 for the'
        " latest and -2 for the earliest; a queue that is not named starts at its earliest."
        " Applies to a new query only: a query with a checkpoint continues from there.",
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
        "What to do with a queue that has no message stored at or after its starting time:"
        " `latest`, start at its end; `error`, fail the query.",
        "`latest`",
    ),
    Option(
        "group",
        READ,
        "Start at the offsets of this consumer group. A queue without an offset of the group starts"
        " as `startingOffsets` or one of its variants says. Applies to a new query only.",
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
        "Whether to fail if messages to be read no longer exist. If not, they are skipped, counted"
        " and logged.",
        "`true`",
    ),
    Option(
        "onDamagedBody",
        READ,
        "What to do with a message whose compressed body is damaged, if bodies are read: `fail`,"
        " naming the message, or `null` in its column `body`.",
        "`fail`",
    ),
    Option(
        "maxOffsetsPerTrigger",
        (Use.STREAM_READ,),
        "The most messages of one micro-batch, divided among queues in proportion to their backlog;"
        " at least one of each.",
        "no limit",
    ),
    Option(
        "maxBytesPerTrigger",
        (Use.STREAM_READ,),
        "About the most bytes of one micro-batch: brokers estimate them from the newest message of"
        " each queue. At least one message of each.",
        "no limit",
    ),
    Option(
        "minOffsetsPerTrigger",
        (Use.STREAM_READ,),
        "Wait until there are this many messages, but no longer than `maxTriggerDelay`.",
        "1",
    ),
    Option(
        "maxTriggerDelay",
        (Use.STREAM_READ,),
        "The longest wait for `minOffsetsPerTrigger`, since the start of the query or its last"
        " micro-batch, such as `500ms`, `10s` or `15m`.",
        "`15m`",
    ),
    Option(
        "commitGroup",
        (Use.STREAM_READ,),
        "Store the progress of the query as the offsets of this consumer group, so that the"
        " queue's own tools show its lag. They are never read back: only the checkpoint counts."
        " Nothing is stored in a group that has members.",
    ),
    Option(
        "minPartitions",
        READ,
        "The fewest Spark partitions; large queues are split to reach it.",
        "one for 100 messages, up to as many as run at once; more for large ranges",
    ),
    Option("maxPartitions", READ, "The most Spark partitions.", "number of queues"),
    Option(
        "maxRecordsPerPartition",
        READ,
        "The most messages of one queue in one Spark partition; larger ranges are split.",
        "no limit",
    ),
    Option(
        "maxBytesPerSecond",
        READ,
        "About the most bytes that brokers send to all tasks of the query in a second, 65536 or"
        " more: so that a backfill leaves room for consumers. Tasks that run at once share it.",
        "no limit",
    ),
    Option(
        "columns",
        READ,
        "The columns, separated by commas, if no schema is given. Without `body`, bodies are not"
        " fetched.",
        "all but `brokerName`",
    ),
    Option(
        "includeProperties",
        READ,
        "Whether the default columns, without `columns` and a schema, include `properties`.",
        "`true`",
    ),
    Option(
        "fetchMaxBytes",
        READ,
        "About how many bytes of messages make one Arrow batch, 65536 to 4194304; four times as"
        " many if no bodies are read, up to the same maximum.",
        "2097152",
    ),
    Option(
        "offsetCacheMs",
        (Use.STREAM_READ,),
        "How long the ends of the queues are cached between two triggers, in milliseconds.",
        "500",
    ),
    Option(
        "requestTimeoutMs",
        READ,
        "How long one request may take, in milliseconds; and how long a broker may send nothing of"
        " a range before the reader checks that it is alive.",
        "10000",
    ),
    Option("numRetries", READ, "How often a request that failed in transit is repeated.", "8"),
    Option(
        "retryBackoffMs",
        READ,
        "Wait before the first repetition, in milliseconds; it doubles each time.",
        "100",
    ),
    Option(
        "otlpEndpoint",
        (*READ, Use.WRITE),
        "An OTLP collector over gRPC, `http://host:4317`, which gets one span per task that reads"
        " messages of sampled spans, or that writes (extra `otlp` of the package).",
        "none",
    ),
    Option(
        "deliveryGuarantee",
        (Use.WRITE,),
        "`at-least-once`: a task ends only when all its messages are acknowledged. `exactly-once`:"
        " the messages of a micro-batch, or of a whole write, become visible together, and only"
        " once however often it is repeated.",
        "`at-least-once`",
    ),
    Option(
        "sinkId",
        (Use.WRITE,),
        "Exactly once in streams: distinguishes writes of one query to the same topic, or to topics"
        " named by a column.",
        "the option `topic`",
    ),
    Option(
        "sinkBrokers",
        (Use.WRITE,),
        "Exactly once: the only brokers that get the rows, separated by commas.",
        "all with queues of the topic",
    ),
    Option(
        "query",
        (Use.WRITE,),
        "In `foreachBatch`: the permanent name of the query. `foreach_batch_writer` knows it"
        " without the option, except in threads that the function starts and with Spark Connect.",
        "the id in the checkpoint",
    ),
    Option(
        "batchId",
        (Use.WRITE,),
        "In `foreachBatch`: the number of the micro-batch, together with `query`."
        " `foreach_batch_writer` passes it by itself.",
    ),
    Option(
        "writeId",
        (Use.WRITE,),
        "Exactly once outside streams, and required there: names the write to its topic, so that"
        " tasks and the whole job may be repeated and still write once. Each write needs a"
        " different name: the same name with other rows fails.",
    ),
    Option(
        "onChangedBatch",
        (Use.WRITE,),
        "Exactly once: what to do if a micro-batch or named write is repeated with other rows than"
        " were committed: `fail`, or `skip` it with a warning and keep the committed rows.",
        "`fail`",
    ),
    Option(
        "maxInFlight",
        (Use.WRITE,),
        "At least once: concurrent requests to one broker, 1 to 64. Exactly once, each task has"
        " one.",
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
        "Compress large bodies: `lz4`, `zstd` or `zlib`. Readers see the original bodies.",
        "`none`",
    ),
    Option(
        "compressBytesMin",
        (Use.WRITE,),
        "Smaller bodies are never compressed, in bytes.",
        "4096",
    ),
    Option(
        "compressionLevel",
        (Use.WRITE,),
        "From 1 (fast) to 9 (small).",
        "5",
    ),
    Option(
        "onBadRow",
        (Use.WRITE,),
        "What to do with a row that cannot become a message, such as one without a body: `fail`,"
        " the write fails and names the row; `deadLetter`, the row goes to `deadLetterTopic` as"
        " JSON, with the property `refusedBecause`, and the others are written.",
        "`fail`",
    ),
    Option(
        "deadLetterTopic",
        (Use.WRITE,),
        "The topic for bad rows; only with `onBadRow=deadLetter`.",
        "required with it",
    ),
    _later(
        "pushdown",
        (Use.BATCH_READ,),
        "Let Spark push its filters down. Up to Spark 4.3, those of one query reach all queries"
        " over the same `load()`, which would then miss rows; see [conditions](#conditions).",
    ),
)

OPTION_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}
"""The options by name in lower case, as Spark passes them."""

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
