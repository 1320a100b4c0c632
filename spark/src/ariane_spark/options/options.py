"""The options of a query that reads, parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane_record.control_characters import holds_control_character
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.access_options import NO_ACCESS, JobAccess, access_options
from ariane_spark.options.endpoint_options import endpoints_of, otlp_endpoint_of
from ariane_spark.options.given_options import GivenOptions, checked_topic
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

BYTES_PER_S_MIN: Final = 64 << 10
"""With less, single chunks would take minutes."""

WAIT_MS_MAX: Final = 3_600_000
RETRIES_MAX: Final = 1_000_000

_TAG_SEPARATOR: Final = "||"


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The policy of requests to brokers and name servers."""

    timeout_ms: int = 10_000
    """The timeout of one request."""
    retries_max: int = 8
    """How often a failed request is repeated."""
    backoff_ms: int = 100
    """The wait before the first repeat; it doubles each time."""


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The limits of one micro-batch."""

    records_max: int | None = None
    """The most messages; ``None``: any number."""
    bytes_max: int | None = None
    """About the most bytes; ``None``: any number."""
    records_min: int | None = None
    """The number of messages to wait for; ``None``: one."""
    delay_ms_max: int = 15 * 60_000
    """The longest wait for them."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read."""

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    selection: QueueSelection
    """The queues to read."""
    starting: PositionRule
    """The start of a new query."""
    ending: PositionRule = Edge.LATEST
    """The end of a batch."""
    tags: frozenset[str] = frozenset()
    """Only messages with one of these tags; empty: all."""
    condition: str = ""
    """Only messages that fulfil this condition in SQL92; empty: all."""
    fail_on_data_loss: bool = True
    """Whether a loss ends the query."""
    null_if_damaged: bool = False
    """Whether a body that cannot be decompressed is null; else it ends the query."""
    trigger: TriggerLimits = field(default_factory=TriggerLimits)
    """The limits of one micro-batch."""
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    """The division of ranges into partitions."""
    bytes_per_s: int | None = None
    """The most bytes that all tasks together read in a second; ``None``: any number."""
    fetch_bytes: int = FETCH_BYTES_DEFAULT
    """About how many bytes of messages make one Arrow batch."""
    offset_cache_ms: int = 500
    """How long the ends of the queues are cached."""
    commit_group: str | None = None
    """The consumer group that shows the progress; ``None``: none."""
    requests: RequestPolicy = field(default_factory=RequestPolicy)
    """The policy of requests."""
    otlp_endpoint: str = ""
    """The collector that gets spans; empty: none."""
    access: JobAccess = NO_ACCESS
    """TLS and credentials."""


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
        endpoints=endpoints_of(options),
        selection=selection,
        starting=starting,
        ending=ending,
        tags=tags_of(options.text("tag")),
        condition=_condition(options),
        fail_on_data_loss=options.truth("failOnDataLoss", default=True),
        null_if_damaged=_null_if_damaged(options),
        trigger=_trigger_limits(options),
        limits=_partition_limits(options),
        bytes_per_s=options.number("maxBytesPerSecond", BYTES_PER_S_MIN),
        fetch_bytes=fetch_bytes or FETCH_BYTES_DEFAULT,
        offset_cache_ms=_or(options.number("offsetCacheMs", 0), 500),
        commit_group=options.group_name("commitGroup"),
        requests=_request_policy(options),
        otlp_endpoint=otlp_endpoint_of(options),
        access=access_options(options),
    )


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


def check_columns(given: Mapping[str, str], names: Iterable[str]) -> None:
    """Check that the option ``columns``, if it is given, and the user's schema agree.

    Args:
        given: The options.
        names: The columns of the schema.

    Raises:
        OptionIllegal: They do not, and one of them would be ignored.
    """
    chosen = column_names(given) if "columns" in map(str.lower, given) else None
    if chosen is not None and list(map(str.lower, chosen)) != list(map(str.lower, names)):
        raise OptionIllegal("columns", "names other columns than the schema; give one of them")


def _null_if_damaged(options: GivenOptions) -> bool:
    value = options.text("onDamagedBody")
    if value not in {None, "fail", "null"}:
        raise OptionIllegal("onDamagedBody", f"{value!r} is neither 'fail' nor 'null'")
    return value == "null"


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
            return NamedTopics((checked_topic(chosen, text),))
    names = options.names("topics") or ()
    return NamedTopics(tuple(checked_topic("topics", name) for name in names))


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
