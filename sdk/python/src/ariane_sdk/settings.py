"""Settings of the clients, with units. The defaults are those of the RocketMQ family."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from ariane_record.single.compression import Compression
from ariane_sdk.checks.limits import BODY_BYTES_MAX
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
else:
    # Names for who reads the annotations, as pydantic does: OpenTelemetry may not be installed.
    MeterProvider = TracerProvider = object


QueueNotice: TypeAlias = (
    Callable[[Sequence[MessageQueue]], Awaitable[None]] | Callable[[Sequence[MessageQueue]], None]
)
"""Called with the queues that a consumer gains or loses, sorted."""

ABSENCE_S_MAX: Final = 3600.0
"""The longest time for which brokers keep the place of a member."""

MEMBER_NAME_MAX: Final = 120

HOLD_S_MAX: Final = 30.0
"""Brokers never hold a pull longer."""

COLUMNS_COUNT_MAX: Final = 65_536
"""Messages of one queue that wait to be fetched as columns, and messages of one such pull."""

COLUMNS_PULL_BYTES_MAX: Final = 8 << 20
"""About how many bytes are in the answer to one pull of a consumer that fetches columns."""

_POSITIVE: Final = frozenset(
    {
        "batch_bytes_max",
        "buffered_bytes_max",
        "call_timeout_s",
        "calls_in_flight_max",
        "listener_threads",
        "offset_store_interval_s",
        "pull_bytes_max",
        "pull_record_count_max",
        "queue_bytes_max",
        "queue_concurrency",
        "queue_message_count_max",
        "queue_span_max",
        "rebalance_interval_s",
        "request_bytes_max",
        "send_timeout_s",
    }
)
"""Settings that must not be 0: nothing would be done, or something all the time."""

_KIND_WORDS: Final[Mapping[type, str]] = {bool: "True or False", str: "a text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer behaves."""

    call_timeout_s: float = 3.0
    """The longest time of one call, in seconds."""
    send_timeout_s: float = 10.0
    """The longest time from a send to its outcome, repeats included. Messages in a call with
    younger ones wait for its answer, ``call_timeout_s`` longer at most."""
    idempotent: bool = True
    """Whether batches are numbered, so that brokers recognise a repeat and store it once. A batch
    that may be stored is then repeated in its own queue until ``send_timeout_s`` is over."""
    repeats_max: int = 2
    """How often a batch that is not idempotent is sent again although an earlier try may have
    stored it: each repeat may store it again. Batches that were certainly not stored are repeated
    until ``send_timeout_s`` is over."""
    repeat_delay_s_min: float = 0.05
    """Delay before the first repeat on the same broker; it doubles each time."""
    repeat_delay_s_max: float = 1.0
    """Upper bound of that delay."""
    avoid_broker_s: float = 2.0
    """How long a broker that did not answer gets no messages that others can take."""
    body_bytes_max: int = BODY_BYTES_MAX
    """The largest body, in bytes."""
    delay_days_max: float = 40.0
    """How many days ahead a delivery time may be. A broker with a lower limit refuses later ones,
    together with all messages of the same batch."""
    batch_bytes_max: int = 2 << 20
    """Bytes of records and their columns after which a batch is full; a larger message is a batch
    of its own."""
    request_bytes_max: int = 2 << 20
    """Bytes of batches in one call to a broker; a larger batch is sent alone. The next call is made
    while a broker works on one: of larger calls, less is made beside its work."""
    calls_in_flight_max: int = 1
    """Concurrent calls to one broker. Any number keeps the order within a queue."""
    large_calls_in_flight_max: int = 4
    """The same while 256 KiB or more wait for that broker. With 2 or more, many small messages are
    sent in two calls as well."""
    compression: Compression = Compression.NONE
    """The codec for large bodies: LZ4, Zstandard or zlib, in RocketMQ's formats. None by default,
    because readers without this client see bodies as they are stored."""
    compress_bytes_min: int = 4096
    """Smaller bodies are never compressed, in bytes."""
    compression_level: int = 5
    """From 1 (fast) to 9 (small)."""
    queue_choice: Literal["round_robin", "least_latency"] = "round_robin"
    """Where messages without a given queue go: "round_robin", or "least_latency", which avoids
    brokers that were slow or failed."""
    spread_count: int = 32
    """Number of messages without a given queue after which the next queue takes over, so that all
    consumers of a group get some of the messages that are sent together; with more under way, as
    many as those, and at most 512. A batch or table is divided into equal shares
    of at least this many. Of many in a row, and while as many are under way as the topic has
    queues, each goes to one queue as a whole, in turn. 0: a whole batch goes to one queue, which is
    faster where few batches in a row go to one topic."""
    latency_bounds_s: tuple[float, ...] = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
    """Latencies of a call from which a broker is avoided, ascending."""
    unavailable_s: tuple[float, ...] = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
    """How long it is avoided, for each of those latencies."""
    failed_call_latency_s: float = 10.0
    """The latency that a call without an answer counts as."""
    buffered_bytes_max: int = 64 << 20
    """Bytes of records that wait or are in flight; beyond that, senders wait."""
    tracer_provider: TracerProvider | None = None
    """Creates OpenTelemetry spans; default: the application's global provider."""
    meter_provider: MeterProvider | None = None
    """The same for metrics."""
    otlp_endpoint: str = ""
    """Collector that gets spans by OTLP over gRPC, such as ``http://collector:4317``, if the
    application does not configure OpenTelemetry itself. Empty: none."""
    message_trace: bool = False
    """Whether each step of a message's life is recorded in the trace topic, where ``ariane message
    trace`` finds it. Costs about as much as the messages themselves."""
    stacks_on_request: bool = True
    """Whether operators may ask where the threads and tasks of this process are: names and places
    in the code, no values. Only a producer with a transaction checker can be asked."""

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            IllegalArgument: A value is out of range; the error names the setting.
        """
        _check_values(self, fields(self))
        if self.queue_choice not in ("round_robin", "least_latency"):
            raise IllegalArgument(
                f'queue_choice {self.queue_choice!r}: "round_robin" or "least_latency"'
            )
        if not isinstance(self.compression, Compression):
            raise IllegalArgument(
                f"compression {self.compression!r}: one of Compression, such as Compression.LZ4"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of every consumer that owns queues: ``PushSettings`` and ``PullSettings``."""

    call_timeout_s: float = 3.0
    """The longest time of a call other than a held pull, in seconds; the start waits three times as
    long while no broker answers."""
    hold_s: float = 5.0
    """How long a broker holds a pull that finds nothing, at most 30. A broker that went silent is
    noticed after this time and ``call_timeout_s``. A FilterServer, which another one can replace at
    once, holds for a second at most."""
    pull_record_count_max: int = 4096
    """Messages in the answer to one pull."""
    pull_bytes_max: int = 2 << 20
    """About how many bytes are in the answer to one pull."""
    queue_message_count_max: int = 1000
    """Messages of one queue that wait for the application; beyond that, the queue is not pulled."""
    queue_bytes_max: int = 100 << 20
    """The same in bytes of records."""
    queue_span_max: int = 2000
    """Distance from the oldest unfinished message of a queue to the newest."""
    rebalance_interval_s: float = 20.0
    """How often a member rebalances without a notification."""
    rebalance_gap_s_min: float = 1.0
    """The shortest time between two rebalances, however many notifications come."""
    handover_s: float = 1.5
    """How long a member of a larger group waits before it takes over a queue, so that the previous
    owner can finish and store its offset."""
    offset_store_interval_s: float = 5.0
    """How often consumer offsets are stored."""
    release_timeout_s: float = 10.0
    """How long a queue that is given up, or a consumer that stops, waits for the application to
    finish."""
    filter_servers_wait_s: float = 30.0
    """How long a consumer with an uploaded filter waits while no FilterServer of a broker answers;
    then it ends with ``FilterServersUnreachable``."""
    fail_on_lost_messages: bool = False
    """Whether the consumer ends with ``MessagesLost`` at messages that a broker has lost;
    otherwise, it logs an error and goes on behind them."""
    zone: str = ""
    """The machine room of this consumer, which the group's strategy may use; may be empty."""
    member_name: str = ""
    """A name of this consumer in its group that stays over restarts, and that no other has at the
    same time, such as the host's: its queues are kept for it, and a rolling deployment moves none.
    Empty: none."""
    member_absence_s: float = 60.0
    """How long they are kept, at most 3600; afterwards the others share them."""
    on_gained: QueueNotice | None = None
    """Called with queues that this consumer gains, and awaited before their first messages; a
    coroutine function on the loop, another one in a thread."""
    on_lost: QueueNotice | None = None
    """The same with queues that it loses, after the application has finished their messages, and
    before the offset is stored for the next owner. One that takes longer than ``handover_s`` is
    finished before the next owner begins only where messages are consumed in order."""
    instance_name: str = "default"
    """Distinguishes broadcasting consumers of one host and group."""
    local_offsets_path: Path | None = None
    """Folder for the offsets of broadcasting consumers; default: ``~/.ariane_offsets``."""
    stacks_on_request: bool = True
    """Whether operators may ask where the threads and tasks of this process are: names and places
    in the code, no values."""
    tracer_provider: TracerProvider | None = None
    """Creates OpenTelemetry spans; default: the application's global provider."""
    meter_provider: MeterProvider | None = None
    """The same for metrics."""
    otlp_endpoint: str = ""
    """Collector that gets spans by OTLP over gRPC, such as ``http://collector:4317``, if the
    application does not configure OpenTelemetry itself. Empty: none."""

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            IllegalArgument: A value is out of range; the error names the setting.
        """
        _check_values(self, fields(self))
        if self.hold_s > HOLD_S_MAX:
            raise IllegalArgument(
                f"hold_s {self.hold_s}: brokers hold for {HOLD_S_MAX:g} s at most"
            )
        for name, notice in (("on_gained", self.on_gained), ("on_lost", self.on_lost)):
            if notice is not None and not callable(notice):
                raise IllegalArgument(f"{name} {notice!r:.100}: a function of queues is expected")
        if self.member_absence_s > ABSENCE_S_MAX:
            raise IllegalArgument(
                f"member_absence_s {self.member_absence_s}: {ABSENCE_S_MAX:g} at most"
            )
        if len(self.member_name) > MEMBER_NAME_MAX or not self.member_name.isprintable():
            raise IllegalArgument(
                f"member_name {self.member_name!r:.100}: {MEMBER_NAME_MAX} printable characters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When a push consumer stops for a while because its listener fails too often.

    After the time, one more failure stops it again, and a success ends the trial.
    """

    failure_ratio: float = 0.5
    """Part of the calls that fail, from which on it stops; above 0, up to 1."""
    calls: int = 20
    """How many calls of the listener count, the last ones; before that many it never stops."""
    hold_s: float = 30.0
    """How long nothing is delivered, in seconds."""

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            IllegalArgument: A value is out of range; the error names the setting.
        """
        _check_values(self, fields(self))
        if not 0 < self.failure_ratio <= 1:
            raise IllegalArgument(f"failure_ratio {self.failure_ratio}: above 0, up to 1")
        if self.calls < 1:
            raise IllegalArgument(f"calls {self.calls}: 1 or more is expected")
        if not self.hold_s:
            raise IllegalArgument("hold_s 0: above 0 is expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings(ConsumerSettings):
    """How a push consumer behaves: the fields of every consumer, and these."""

    queue_concurrency: int = 1
    """Batches of one queue that the listener processes at the same time. With 1, the messages of a
    queue come in order. With more, the stored offset is the smallest unfinished one; with
    ``ordered=True``, each message group stays in order."""
    listener_threads: int = 20
    """Threads for a listener that is a plain function."""
    redelivery_delay_s_min: float = 1.0
    """Delay before failed messages that could not be sent back to their broker are delivered again;
    it doubles each time, up to a minute."""
    attempts_max: int = 0
    """How often a failed message is repeated before it becomes a dead letter; 0 means the group's
    setting, which is without limit for messages that are consumed in order. A broadcasting consumer
    passes over it after so many repetitions; 0 means 3."""
    suspend_s: float = 1.0
    """How long a queue that is consumed in order waits before a failed batch is repeated."""
    store_each_batch: bool = False
    """Whether the offset is stored, on the broker's disk, after each batch and before the next one:
    a consumer that dies repeats one batch at most, at the price of a call for each. Otherwise every
    ``offset_store_interval_s``."""
    message_trace: bool = False
    """Whether each step of a message's life is recorded in the trace topic, where ``ariane message
    trace`` finds it. Costs about as much as the messages themselves."""
    consume_on_request: bool = True
    """Whether an operator may have this consumer consume a message again, in addition to its
    others."""
    breaker: Breaker | None = None
    """When the consumer stops for a while because its listener fails too often; None: never."""

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            IllegalArgument: A value is out of range; the error names the setting.
        """
        ConsumerSettings.__post_init__(self)
        if self.breaker is not None and not isinstance(self.breaker, Breaker):
            raise IllegalArgument(f"breaker {self.breaker!r:.100}: a Breaker is expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings(ConsumerSettings):
    """How a pull consumer behaves: the fields of every consumer.

    With ``column_names``, the limits on the number of messages and ``pull_bytes_max`` are larger
    (65,536 messages and 8 MiB), because a message in a record batch is not an object.
    """

    def for_columns(self) -> PullSettings:
        """These settings with the limits of a consumer that fetches columns."""
        return replace(
            self,
            pull_record_count_max=COLUMNS_COUNT_MAX,
            pull_bytes_max=COLUMNS_PULL_BYTES_MAX,
            queue_message_count_max=COLUMNS_COUNT_MAX,
            queue_span_max=COLUMNS_COUNT_MAX,
        )


SettingsT = TypeVar("SettingsT")


def checked_settings(settings: SettingsT | None, kind: type[SettingsT]) -> SettingsT:
    """The given settings, or the defaults.

    Raises:
        IllegalArgument: They are the settings of another kind of client.
    """
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise IllegalArgument(f"settings {settings!r:.100}: {kind.__name__} is expected")
    return settings


def _check_values(settings: object, declared: Collection[Field[Any]]) -> None:
    for each in declared:
        name, kind = each.name, type(each.default)
        value: object = getattr(settings, name)
        if kind in _KIND_WORDS and not isinstance(value, kind):
            raise IllegalArgument(f"{name} {value!r:.100}: {_KIND_WORDS[kind]} is expected")
        if kind not in (int, float):
            continue
        wanted = int if kind is int else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise IllegalArgument(f"{name} {value!r:.100}: a number is expected")
        if math.isnan(value) or value < 0 or (value == 0 and name in _POSITIVE):
            least = "above 0" if name in _POSITIVE else "0 or more"
            raise IllegalArgument(f"{name} {value}: {least} is expected")
