"""The options of a query, parsed for readers and writer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from ariane_record.control_characters import holds_control_character
from ariane_record.single.compression import Compression
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.given_options import GivenOptions
from ariane_spark.options.option_table import Use
from ariane_spark.options.position_options import check_order, ending_rule, starting_rule
from ariane_spark.positions.offsets import OffsetsMalformed, parse_queues
from ariane_spark.positions.partitions import PartitionLimits
from ariane_spark.positions.position_rules import Edge, PositionRule
from ariane_spark.positions.queue_selection import (
    AssignedQueues,
    NamedTopics,
    QueueSelection,
    TopicPattern,
)

FETCH_BYTES_MIN: Final = 64 << 10
FETCH_BYTES_MAX: Final = 4 << 20
FETCH_BYTES_DEFAULT: Final = 2 << 20
"""Spark's socket is fastest with batches of this size. Half of it costs a quarter more to decode,
because of work for each batch; twice of it saves little, and takes memory."""

BATCH_BYTES_MIN: Final = 64 << 10
BATCH_BYTES_MAX: Final = 3 << 20
BATCH_BYTES_DEFAULT: Final = 1 << 20
SINK_ID_LENGTH_MAX: Final = 100

PORT_MAX: Final = 65_535
WAIT_MS_MAX: Final = 3_600_000
RETRIES_MAX: Final = 1_000_000

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

FAIL: Final = "fail"
DEAD_LETTER: Final = "deadLetter"

_TAG_SEPARATOR: Final = "||"


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The policy of requests to brokers and name servers.

    Attributes:
        timeout_ms: The timeout of one request.
        retries_max: How often a failed request is repeated.
        backoff_ms: The wait before the first repeat; it doubles each time.
    """

    timeout_ms: int = 10_000
    retries_max: int = 8
    backoff_ms: int = 100


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The limits of one micro-batch.

    Attributes:
        records_max: The most messages; ``None``: any number.
        bytes_max: About the most bytes; ``None``: any number.
        records_min: The number of messages to wait for; ``None``: one.
        delay_ms_max: The longest wait for them.
    """

    records_max: int | None = None
    bytes_max: int | None = None
    records_min: int | None = None
    delay_ms_max: int = 15 * 60_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read.

    Attributes:
        endpoints: Name servers, ``host:port``, separated by commas.
        selection: The queues to read.
        starting: The start of a new query.
        ending: The end of a batch.
        tags: Only messages with one of these tags; empty: all.
        condition: Only messages that fulfil this condition in SQL92; empty: all.
        fail_on_data_loss: Whether a loss ends the query.
        null_if_damaged: Whether a body that cannot be decompressed is null; else it ends the query.
        trigger: The limits of one micro-batch.
        limits: The division of ranges into partitions.
        fetch_bytes: About how many bytes of messages make one Arrow batch.
        offset_cache_ms: How long the ends of the queues are cached.
        commit_group: The consumer group that shows the progress; ``None``: none.
        requests: The policy of requests.
        otlp_endpoint: The collector that gets spans; empty: none.
    """

    endpoints: str
    selection: QueueSelection
    starting: PositionRule
    ending: PositionRule = Edge.LATEST
    tags: frozenset[str] = frozenset()
    condition: str = ""
    fail_on_data_loss: bool = True
    null_if_damaged: bool = False
    trigger: TriggerLimits = field(default_factory=TriggerLimits)
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    fetch_bytes: int = FETCH_BYTES_DEFAULT
    offset_cache_ms: int = 500
    commit_group: str | None = None
    requests: RequestPolicy = field(default_factory=RequestPolicy)
    otlp_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class BodyCompression:
    """The compression of bodies; the defaults are the same as for producers.

    Attributes:
        kind: The format.
        bytes_min: Bodies of fewer bytes are never compressed.
        level: From 1, fast, to 9, small.
    """

    kind: Compression = Compression.NONE
    bytes_min: int = 4096
    level: int = 5


NO_COMPRESSION: Final = BodyCompression()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        endpoints: Name servers, ``host:port``, separated by commas.
        topic: The topic of all rows; ``None``: a column has it.
        exactly_once: Whether batch transactions are used.
        sink_id: Distinguishes sinks of one query; ``None``: their topics do.
        write_id: The name of a write that is not a stream, so that it can be repeated; ``None``:
            it cannot.
        skips_changed_batch: Whether a repeated batch with other rows is skipped; else it is
            refused.
        batch_bytes: Bytes of one request.
        calls_max: The most concurrent requests to one broker, if not exactly once.
        compression: The compression of bodies.
        dead_letter_topic: The topic for rows that cannot become messages; ``None``: they are
            refused.
        otlp_endpoint: The collector that gets spans; empty: none.
    """

    endpoints: str
    topic: str | None = None
    exactly_once: bool = False
    sink_id: str | None = None
    write_id: str | None = None
    skips_changed_batch: bool = False
    batch_bytes: int = BATCH_BYTES_DEFAULT
    calls_max: int = 1
    compression: BodyCompression = NO_COMPRESSION
    dead_letter_topic: str | None = None
    otlp_endpoint: str = ""


def _dead_letter_topic(options: GivenOptions) -> str | None:
    wanted = options.text("onBadRow") or FAIL
    topic = options.text("deadLetterTopic")
    if wanted not in {FAIL, DEAD_LETTER}:
        raise OptionIllegal("onBadRow", f"{wanted!r} is neither {FAIL!r} nor {DEAD_LETTER!r}")
    if (topic is not None) != (wanted == DEAD_LETTER):
        raise OptionIllegal("deadLetterTopic", f"goes together with onBadRow={DEAD_LETTER!r}")
    return topic


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """The options of a query that reads.

    Raises:
        OptionError: An option is illegal; the text names it and the reason.
    """
    options = GivenOptions(given, use)
    # The schema decides the columns; here the option is only checked.
    options.truth("includeProperties", default=True)
    selection = _selection(options)
    fetch_bytes = options.number("fetchMaxBytes", FETCH_BYTES_MIN, FETCH_BYTES_MAX)
    starting, ending = starting_rule(options, use, selection), ending_rule(options, selection)
    check_order(starting, ending)
    return ReadOptions(
        endpoints=_endpoints(options),
        selection=selection,
        starting=starting,
        ending=ending,
        tags=tags_of(options.text("tag")),
        condition=_condition(options),
        fail_on_data_loss=options.truth("failOnDataLoss", default=True),
        null_if_damaged=_null_if_damaged(options),
        trigger=_trigger_limits(options),
        limits=_partition_limits(options),
        fetch_bytes=fetch_bytes or FETCH_BYTES_DEFAULT,
        offset_cache_ms=_or(options.number("offsetCacheMs", 0), 500),
        commit_group=options.group_name("commitGroup"),
        requests=_request_policy(options),
        otlp_endpoint=_otlp_endpoint(options),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a query that writes.

    Raises:
        OptionError: An option is illegal; the text names it and the reason.
    """
    options = GivenOptions(given, Use.WRITE)
    guarantee = options.text("deliveryGuarantee") or AT_LEAST_ONCE
    if guarantee not in {AT_LEAST_ONCE, EXACTLY_ONCE}:
        raise OptionIllegal(
            "deliveryGuarantee", f"{guarantee!r} is neither {AT_LEAST_ONCE!r} nor {EXACTLY_ONCE!r}"
        )
    exactly_once = guarantee == EXACTLY_ONCE
    calls_max = options.number("maxInFlight", 1, 64)
    if exactly_once and calls_max is not None:
        raise OptionIllegal(
            "maxInFlight",
            f"is for {AT_LEAST_ONCE!r}; otherwise each task has one request under way",
        )
    return WriteOptions(
        endpoints=_endpoints(options),
        topic=options.text("topic"),
        exactly_once=exactly_once,
        sink_id=_name_of_write(options, "sinkId", exactly_once=exactly_once),
        write_id=_name_of_write(options, "writeId", exactly_once=exactly_once),
        skips_changed_batch=_skips_changed_batch(options, exactly_once=exactly_once),
        batch_bytes=options.number("batchBytes", BATCH_BYTES_MIN, BATCH_BYTES_MAX)
        or BATCH_BYTES_DEFAULT,
        calls_max=calls_max or 1,
        compression=_compression(options),
        dead_letter_topic=_dead_letter_topic(options),
        otlp_endpoint=_otlp_endpoint(options),
    )


def _otlp_endpoint(options: GivenOptions) -> str:
    endpoint = options.text("otlpEndpoint") or ""
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise OptionIllegal("otlpEndpoint", f"{endpoint!r}: http://host:port is expected")
    if endpoint and find_spec("opentelemetry.exporter") is None:
        raise OptionIllegal("otlpEndpoint", "needs pip install 'ariane-spark[otlp]'")
    return endpoint


def column_names(given: Mapping[str, str]) -> tuple[str, ...] | None:
    """The option ``columns``, which is needed before Spark tells the kind of query.

    Returns:
        The names; ``None``: all usual ones.
    """
    chosen = ("columns", "includeproperties")
    some = {name: value for name, value in given.items() if name.lower() in chosen}
    options = GivenOptions(some, Use.BATCH_READ)
    names = options.names("columns")
    if names is None and not options.truth("includeProperties", default=True):
        from ariane_spark.records.columns import message_schema  # noqa: PLC0415 - only where it is asked.

        return tuple(name for name in message_schema().fieldNames() if name != "properties")
    return names


def _compression(options: GivenOptions) -> BodyCompression:
    name = options.text("compression") or Compression.NONE.value
    kinds = {kind.value: kind for kind in Compression}
    if name.lower() not in kinds:
        raise OptionIllegal("compression", f"{name!r} is none of {', '.join(kinds)}")
    kind = kinds[name.lower()]
    bytes_min = options.number("compressBytesMin", 0)
    level = options.number("compressionLevel", 1, 9)
    if kind is Compression.NONE:
        for useless, value in (("compressBytesMin", bytes_min), ("compressionLevel", level)):
            if value is not None:
                raise OptionIllegal(useless, "has a meaning only with 'compression'")
    return BodyCompression(
        kind, _or(bytes_min, NO_COMPRESSION.bytes_min), level or NO_COMPRESSION.level
    )


def _name_of_write(options: GivenOptions, name: str, *, exactly_once: bool) -> str | None:
    value = options.text(name)
    if value is None:
        return None
    if not exactly_once:
        raise OptionIllegal(name, f"has a meaning only with deliveryGuarantee={EXACTLY_ONCE!r}")
    if len(value) > SINK_ID_LENGTH_MAX or not value.isprintable():
        raise OptionIllegal(name, f"must be {SINK_ID_LENGTH_MAX} printable characters at most")
    return value


def _skips_changed_batch(options: GivenOptions, *, exactly_once: bool) -> bool:
    value = options.text("onChangedBatch")
    if value is None:
        return False
    if not exactly_once:
        raise OptionIllegal(
            "onChangedBatch", f"has a meaning only with deliveryGuarantee={EXACTLY_ONCE!r}"
        )
    if value not in {"fail", "skip"}:
        raise OptionIllegal("onChangedBatch", f"{value!r} is neither 'fail' nor 'skip'")
    return value == "skip"


def _null_if_damaged(options: GivenOptions) -> bool:
    value = options.text("onDamagedBody")
    if value not in {None, "fail", "null"}:
        raise OptionIllegal("onDamagedBody", f"{value!r} is neither 'fail' nor 'null'")
    return value == "null"


def _endpoints(options: GivenOptions) -> str:
    hint = "name the name servers, such as '127.0.0.1:9876'"
    endpoints = options.required_text("endpoints", hint)
    for endpoint in endpoints.split(","):
        host, colon, port = endpoint.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= PORT_MAX
        if not (host and colon and is_port) or "/" in host:
            raise OptionIllegal("endpoints", f"{endpoint!r} is not of the form host:port")
    return ",".join(endpoint.strip() for endpoint in endpoints.split(","))


def _selection(options: GivenOptions) -> QueueSelection:
    chosen = options.only_one_of("topic", "topics", "topicsPattern", "assign")
    match chosen and options.text(chosen):
        case None:
            raise OptionIllegal("topic", "is missing; name one, or several in 'topics'")
        case text if chosen == "topicsPattern":
            try:
                re.compile(text)
            except re.error as error:
                raise OptionIllegal(chosen, f"{text!r} is no regular expression: {error}") from None
            return TopicPattern(text)
        case text if chosen == "assign":
            try:
                return AssignedQueues(parse_queues(text))
            except OffsetsMalformed as error:
                raise OptionIllegal(chosen, str(error)) from error
        case text if chosen == "topic":
            if "," in text:
                raise OptionIllegal("topic", "is one name; several go into 'topics'")
            return NamedTopics((text,))
    return NamedTopics(options.names("topics") or ())


def _condition(options: GivenOptions) -> str:
    """The given condition; empty without one."""
    text = options.text("filter")
    if text is None:
        return ""
    if options.text("tag") is not None:
        raise OptionIllegal("filter", "not with 'tag': a condition asks for the property TAGS")
    # Queries with other filters do not pay for the parser's import.
    from ariane_sql92 import ConditionInvalid, compile_condition  # noqa: PLC0415 - as above

    try:
        return compile_condition(text).text
    except ConditionInvalid as error:
        raise OptionIllegal("filter", f"{text!r}: {error}") from error


def tags_of(text: str | None) -> frozenset[str]:
    """The tags in the option ``tag``; none: all messages.

    Raises:
        OptionIllegal: It is malformed.
    """
    if text is None or text == "*":
        return frozenset()
    tags = [tag.strip() for tag in text.split(_TAG_SEPARATOR)]
    for tag in tags:
        if not tag or tag == "*" or "|" in tag:
            raise OptionIllegal("tag", f"{text!r} is no tag, or several joined by '||'")
        if holds_control_character(tag):
            raise OptionIllegal("tag", f"{text!r} holds a control character")
    return frozenset(tags)


def _trigger_limits(options: GivenOptions) -> TriggerLimits:
    limits = TriggerLimits(
        records_max=options.number("maxOffsetsPerTrigger"),
        bytes_max=options.number("maxBytesPerTrigger"),
        records_min=options.number("minOffsetsPerTrigger"),
        delay_ms_max=_or(options.duration_ms("maxTriggerDelay"), TriggerLimits().delay_ms_max),
    )
    if limits.records_min is None and options.text("maxTriggerDelay") is not None:
        raise OptionIllegal("maxTriggerDelay", "has a meaning only with 'minOffsetsPerTrigger'")
    if limits.records_max is not None and limits.records_max < (limits.records_min or 0):
        raise OptionIllegal("maxOffsetsPerTrigger", "is less than 'minOffsetsPerTrigger'")
    return limits


def _partition_limits(options: GivenOptions) -> PartitionLimits:
    limits = PartitionLimits(
        partitions_min=options.number("minPartitions"),
        partitions_max=options.number("maxPartitions"),
        records_max=options.number("maxRecordsPerPartition"),
    )
    if limits.partitions_max is not None and limits.partitions_max < (limits.partitions_min or 0):
        raise OptionIllegal("maxPartitions", "is less than 'minPartitions'")
    return limits


def _request_policy(options: GivenOptions) -> RequestPolicy:
    policy = RequestPolicy()
    return RequestPolicy(
        timeout_ms=options.number("requestTimeoutMs", 1, WAIT_MS_MAX) or policy.timeout_ms,
        retries_max=_or(options.number("numRetries", 0, RETRIES_MAX), policy.retries_max),
        backoff_ms=_or(options.number("retryBackoffMs", 0, WAIT_MS_MAX), policy.backoff_ms),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
