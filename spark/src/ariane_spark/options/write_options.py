"""The options of a query that writes, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ariane_record.single.compression import Compression
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.access_options import NO_ACCESS, JobAccess, access_options
from ariane_spark.options.endpoint_options import endpoints_of, otlp_endpoint_of
from ariane_spark.options.given_options import GivenOptions
from ariane_spark.options.option_table import OPTIONS_OF_SPARK, Use

BATCH_BYTES_MIN: Final = 64 << 10
BATCH_BYTES_MAX: Final = 3 << 20
BATCH_BYTES_DEFAULT: Final = 1 << 20
SINK_ID_LENGTH_MAX: Final = 100


WRITE: Final = "write"
"""Where others have their query, names of writes that belong to no stream have this."""

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

FAIL: Final = "fail"
DEAD_LETTER: Final = "deadLetter"


@dataclass(frozen=True, slots=True)
class BodyCompression:
    """The compression of bodies; the defaults are the same as for producers."""

    kind: Compression = Compression.NONE
    """The format."""
    bytes_min: int = 4096
    """Bodies of fewer bytes are never compressed."""
    level: int = 5
    """From 1, fast, to 9, small."""


NO_COMPRESSION: Final = BodyCompression()


class MicroBatch(NamedTuple):
    """A micro-batch."""

    query: str
    """The permanent name of the query."""
    batch_id: int
    """Spark's number of the micro-batch."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write."""

    endpoints: str
    """Name servers, ``host:port``, separated by commas."""
    topic: str | None = None
    """The topic of all rows; ``None``: a column has it."""
    exactly_once: bool = False
    """Whether batch transactions are used."""
    sink_id: str | None = None
    """Distinguishes sinks of one query; ``None``: their topics do."""
    sink_brokers: tuple[str, ...] = ()
    """The only brokers that get the rows, if exactly once; none: all of the topic."""
    write_id: str | None = None
    """The name of a write that belongs to no stream."""
    micro_batch: MicroBatch | None = None
    """The micro-batch of ``foreachBatch`` that is written."""
    skips_changed_batch: bool = False
    """Whether a repeated batch with other rows is skipped; else it is refused."""
    batch_bytes: int = BATCH_BYTES_DEFAULT
    """Bytes of one request."""
    calls_max: int = 1
    """The most concurrent requests to one broker, if not exactly once."""
    compression: BodyCompression = NO_COMPRESSION
    """The compression of bodies."""
    dead_letter_topic: str | None = None
    """The topic for rows that cannot become messages; ``None``: they are refused."""
    otlp_endpoint: str = ""
    """The collector that gets spans; empty: none."""
    access: JobAccess = NO_ACCESS
    """TLS and credentials."""


def without_those_of_spark(given: Mapping[str, str]) -> dict[str, str]:
    """The options of the user, without those that Spark adds for writers of streams."""
    return {name: value for name, value in given.items() if name.lower() not in OPTIONS_OF_SPARK}


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
        endpoints=endpoints_of(options),
        topic=options.topic_name("topic"),
        exactly_once=exactly_once,
        sink_id=_name_of_write(options, "sinkId", exactly_once=exactly_once),
        sink_brokers=_sink_brokers(options, exactly_once=exactly_once),
        write_id=_name_of_write(options, "writeId", exactly_once=exactly_once),
        micro_batch=_micro_batch(options),
        skips_changed_batch=_skips_changed_batch(options, exactly_once=exactly_once),
        batch_bytes=options.number("batchBytes", BATCH_BYTES_MIN, BATCH_BYTES_MAX)
        or BATCH_BYTES_DEFAULT,
        calls_max=calls_max or 1,
        compression=_compression(options),
        dead_letter_topic=_dead_letter_topic(options),
        otlp_endpoint=otlp_endpoint_of(options),
        access=access_options(options),
    )


def _dead_letter_topic(options: GivenOptions) -> str | None:
    wanted = options.text("onBadRow") or FAIL
    topic = options.topic_name("deadLetterTopic")
    if wanted not in {FAIL, DEAD_LETTER}:
        raise OptionIllegal("onBadRow", f"{wanted!r} is neither {FAIL!r} nor {DEAD_LETTER!r}")
    if (topic is not None) != (wanted == DEAD_LETTER):
        raise OptionIllegal("deadLetterTopic", f"goes together with onBadRow={DEAD_LETTER!r}")
    if topic is not None and topic == options.text("topic"):
        raise OptionIllegal("deadLetterTopic", "is the topic of the good rows; name another one")
    return topic


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
        kind,
        NO_COMPRESSION.bytes_min if bytes_min is None else bytes_min,
        level or NO_COMPRESSION.level,
    )


def _name_of_write(options: GivenOptions, name: str, *, exactly_once: bool) -> str | None:
    value = options.text(name)
    if value is None:
        return None
    if not exactly_once:
        raise OptionIllegal(name, f"has a meaning only with deliveryGuarantee={EXACTLY_ONCE!r}")
    _check_length(name, value)
    return value


def _sink_brokers(options: GivenOptions, *, exactly_once: bool) -> tuple[str, ...]:
    names = options.names("sinkBrokers")
    if names and not exactly_once:
        raise OptionIllegal(
            "sinkBrokers", f"has a meaning only with deliveryGuarantee={EXACTLY_ONCE!r}"
        )
    return tuple(sorted(names or ()))


def _micro_batch(options: GivenOptions) -> MicroBatch | None:
    query, batch_id = options.text("query"), options.number("batchId", 0)
    if (query is None) != (batch_id is None):
        raise OptionIllegal("batchId", "goes together with 'query'")
    if query is None or batch_id is None:
        return None
    check_query(query)
    if options.text("writeId") is not None:
        raise OptionIllegal("writeId", "is for writes that belong to no stream; not with 'query'")
    return MicroBatch(query, batch_id)


def check_query(query: str) -> None:
    """Check the permanent name of a query.

    Raises:
        OptionIllegal: It cannot be one.
    """
    _check_length("query", query)
    if "/" in query or query == WRITE:
        raise OptionIllegal("query", f"may be neither {WRITE!r} nor contain a slash")


def _check_length(name: str, value: str) -> None:
    if len(value) > SINK_ID_LENGTH_MAX or not value.isprintable():
        raise OptionIllegal(name, f"must be {SINK_ID_LENGTH_MAX} printable characters at most")


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
