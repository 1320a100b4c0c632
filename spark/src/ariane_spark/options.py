"""Options as a user gives them, read into what the readers and the writer go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeAlias

from ariane_spark.errors import FeatureNotAvailable, OptionIllegal, UnknownOption
from ariane_spark.offsets import OffsetsMalformed, Positions, parse_offsets
from ariane_spark.option_table import FOREIGN_NAMES, OPTION_BY_KEY, OPTIONS, Use
from ariane_spark.partitions import PartitionLimits

FETCH_BYTES_MIN: Final = 64 << 10
FETCH_BYTES_MAX: Final = 4 << 20
FETCH_BYTES_DEFAULT: Final = 1 << 20
"""Larger batches pass a little faster through Spark's socket, but cost the broker more: it gets and
returns the pages of each chunk anew from 2 MiB on."""

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"


class Edge(Enum):
    """An end of what is kept of a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message stored at or after a time.

    Attributes:
        timestamp_ms: Milliseconds since the epoch.
    """

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Certain positions; -1 stands for the latest, -2 for the earliest."""

    positions: Positions


PositionRule: TypeAlias = Edge | AtTime | AtOffsets
"""How a user says where to start or to end."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How requests to brokers and name servers are made.

    Attributes:
        timeout_ms: How long one request may take.
        retries_max: How often one is repeated after it failed on its way.
        backoff_ms: Wait before the first repetition; it doubles each time.
    """

    timeout_ms: int = 10_000
    retries_max: int = 8
    backoff_ms: int = 100


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read and how."""

    endpoints: str
    topics: tuple[str, ...]
    starting: PositionRule
    ending: PositionRule = Edge.LATEST
    fail_on_data_loss: bool = True
    trigger_records_max: int | None = None
    limits: PartitionLimits = field(default_factory=PartitionLimits)
    fetch_bytes: int = FETCH_BYTES_DEFAULT
    offset_cache_ms: int = 500
    requests: RequestPolicy = field(default_factory=RequestPolicy)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write."""

    endpoints: str
    topic: str | None = None


class GivenOptions:
    """The options of one query, checked as a whole and then read one by one."""

    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        """Take the options of a query.

        Args:
            given: By name; the case of names does not matter.
            use: What the query does.

        Raises:
            UnknownOption: A name that no option has.
            FeatureNotAvailable: An option of a later version.
            OptionIllegal: An option that has no meaning for this use.
        """
        self._given = {name.lower(): value for name, value in given.items()}
        for key in self._given:
            _check_name(key, use)

    def text(self, name: str) -> str | None:
        """The value without surrounding space, or nothing."""
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            raise OptionIllegal(name, "is empty")
        return value and value.strip()

    def required_text(self, name: str, hint: str) -> str:
        """The value; it must be given."""
        value = self.text(name)
        if value is None:
            raise OptionIllegal(name, f"is missing; {hint}")
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        """The value as names separated by commas, none twice."""
        value = self.text(name)
        if value is None:
            return None
        names = tuple(part.strip() for part in value.split(","))
        if "" in names or len(set(names)) < len(names):
            raise OptionIllegal(name, f"{value!r} holds an empty name or one twice")
        return names

    def number(self, name: str, minimum: int = 1, maximum: int | None = None) -> int | None:
        """The value as a whole number within a range."""
        value = self.text(name)
        if value is None:
            return None
        wanted = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        if not (value.isascii() and value.isdigit()):
            raise OptionIllegal(name, f"{value!r} is no whole number of {wanted}")
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise OptionIllegal(name, f"{number} is out of range: {wanted}")
        return number

    def truth(self, name: str, *, default: bool) -> bool:
        """The value as true or false."""
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise OptionIllegal(name, f"{value!r} is neither true nor false")
        return value == "true"

    def position(self, side: str, default: Edge) -> PositionRule:
        """Where to start or end.

        Args:
            side: ``starting`` or ``ending``, which names of options begin with.
            default: What holds when nothing is said.
        """
        by_offset, by_time = f"{side}Offsets", f"{side}Timestamp"
        offsets, timestamp = self.text(by_offset), self.text(by_time)
        if offsets is not None and timestamp is not None:
            raise OptionIllegal(by_time, f"contradicts {by_offset!r}; give one of them")
        if timestamp is not None:
            return AtTime(_timestamp_ms(by_time, timestamp))
        if offsets is None:
            return default
        if offsets.lower() in {edge.value for edge in Edge}:
            return Edge(offsets.lower())
        try:
            return AtOffsets(parse_offsets(offsets))
        except OffsetsMalformed as error:
            raise OptionIllegal(
                by_offset, f"neither earliest nor latest nor offsets as JSON: {error}"
            ) from error


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """The options of a query that reads.

    Raises:
        OptionError: One of them cannot be obeyed; the text names it and says why.
    """
    options = GivenOptions(given, use)
    batch = use is Use.BATCH_READ
    starting = options.position("starting", Edge.EARLIEST if batch else Edge.LATEST)
    ending = options.position("ending", Edge.LATEST)
    if batch and starting is Edge.LATEST:
        raise OptionIllegal("startingOffsets", "a batch that starts at the latest reads nothing")
    if ending is Edge.EARLIEST:
        raise OptionIllegal("endingOffsets", "a batch that ends at the earliest reads nothing")
    limits = PartitionLimits(
        partitions_min=options.number("minPartitions"),
        partitions_max=options.number("maxPartitions"),
        records_max=options.number("maxRecordsPerPartition"),
    )
    if limits.partitions_max is not None and limits.partitions_max < (limits.partitions_min or 0):
        raise OptionIllegal("maxPartitions", "is less than 'minPartitions'")
    policy = RequestPolicy()
    requests = RequestPolicy(
        timeout_ms=options.number("requestTimeoutMs") or policy.timeout_ms,
        retries_max=_or(options.number("numRetries", 0), policy.retries_max),
        backoff_ms=_or(options.number("retryBackoffMs", 0), policy.backoff_ms),
    )
    fetch_bytes = options.number("fetchMaxBytes", FETCH_BYTES_MIN, FETCH_BYTES_MAX)
    topics = _topics(options)
    _check_topics("startingOffsets", starting, topics)
    _check_topics("endingOffsets", ending, topics)
    return ReadOptions(
        endpoints=_endpoints(options),
        topics=topics,
        starting=starting,
        ending=ending,
        fail_on_data_loss=options.truth("failOnDataLoss", default=True),
        trigger_records_max=options.number("maxOffsetsPerTrigger"),
        limits=limits,
        fetch_bytes=fetch_bytes or FETCH_BYTES_DEFAULT,
        offset_cache_ms=_or(options.number("offsetCacheMs", 0), 500),
        requests=requests,
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a query that writes.

    Raises:
        OptionError: One of them cannot be obeyed; the text names it and says why.
    """
    options = GivenOptions(given, Use.WRITE)
    guarantee = options.text("deliveryGuarantee") or AT_LEAST_ONCE
    if guarantee == EXACTLY_ONCE:
        raise FeatureNotAvailable(
            "deliveryGuarantee", f"{EXACTLY_ONCE!r} is not available yet; use {AT_LEAST_ONCE!r}"
        )
    if guarantee != AT_LEAST_ONCE:
        raise OptionIllegal("deliveryGuarantee", f"{guarantee!r} is not {AT_LEAST_ONCE!r}")
    return WriteOptions(endpoints=_endpoints(options), topic=options.text("topic"))


def column_names(given: Mapping[str, str]) -> tuple[str, ...] | None:
    """The option ``columns``, which Spark needs before it says what the query does."""
    value = next((value for name, value in given.items() if name.lower() == "columns"), None)
    return (
        None if value is None else GivenOptions({"columns": value}, Use.BATCH_READ).names("columns")
    )


def _check_name(key: str, use: Use) -> None:
    option = OPTION_BY_KEY.get(key)
    if option is None:
        raise UnknownOption(key, _suggestion(key, use))
    if option.later:
        raise FeatureNotAvailable(option.name, "is known, but not available yet")
    if use not in option.uses:
        uses = " or ".join(use.value for use in option.uses)
        raise OptionIllegal(option.name, f"is for a {uses}, and this is a {use.value}")


def _suggestion(key: str, use: Use) -> str:
    usable = [option.name for option in OPTIONS if use in option.uses and not option.later]
    name = FOREIGN_NAMES.get(key)
    if name is None:
        near = get_close_matches(key, [name.lower() for name in usable], n=1)
        name = OPTION_BY_KEY[near[0]].name if near else None
    if name is not None:
        return f"is not known; did you mean {name!r}?"
    return f"is not known; a {use.value} knows {', '.join(sorted(usable, key=str.lower))}"


def _endpoints(options: GivenOptions) -> str:
    hint = "name the name servers, such as '127.0.0.1:9876'"
    endpoints = options.required_text("endpoints", hint)
    for endpoint in endpoints.split(","):
        host, colon, port = endpoint.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit()):
            raise OptionIllegal("endpoints", f"{endpoint!r} is not of the form host:port")
    return ",".join(endpoint.strip() for endpoint in endpoints.split(","))


def _topics(options: GivenOptions) -> tuple[str, ...]:
    topic, topics = options.text("topic"), options.names("topics")
    if topic is not None and topics is not None:
        raise OptionIllegal("topics", "contradicts 'topic'; give one of them")
    if topic is not None and "," in topic:
        raise OptionIllegal("topic", "is one name; several go into 'topics'")
    if topics is None and topic is None:
        raise OptionIllegal("topic", "is missing; name one, or several in 'topics'")
    return topics or (topic or "",)


def _check_topics(name: str, rule: PositionRule, topics: tuple[str, ...]) -> None:
    if isinstance(rule, AtOffsets):
        foreign = {queue.topic for queue in rule.positions} - set(topics)
        if foreign:
            raise OptionIllegal(name, f"names {', '.join(sorted(foreign))}, which is not read")


def _timestamp_ms(name: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise OptionIllegal(
            name,
            f"{text!r} is neither milliseconds since 1970"
            " nor ISO 8601 with an offset, such as 2013-02-08T05:00:00+00:00",
        )
    return round(moment.timestamp() * 1000)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
