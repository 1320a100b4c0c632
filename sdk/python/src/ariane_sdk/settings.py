"""What can be set, with units and defaults. The defaults are those of the RocketMQ family."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ariane_record.single.compression import Compression
from ariane_sdk.checks.limits import BODY_BYTES_MAX
from ariane_sdk.errors import IllegalArgument

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


HOLD_S_MAX: Final = 30.0
"""Brokers hold no pull for longer."""

BUSY_WAIT_S_MAX: Final = 0.01
"""Whoever waits for longer than this may as well be woken."""

COLUMNS_COUNT_MAX: Final = 65_536
"""Messages of one queue that wait to be fetched as columns, and messages of one pull for them."""

COLUMNS_PULL_BYTES_MAX: Final = 8 << 20
"""Bytes in the answer to one pull of a consumer that fetches columns, about."""

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
"""With 0 of them nothing would be done, or something all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer behaves.

    Attributes:
        call_timeout_s: How long one call may take, in seconds.
        send_timeout_s: How long a message may wait and be on its way in all, repeats included.
        idempotent: Whether brokers are told which batch comes again, so that it is stored once. A
            batch that may be stored is then repeated in its own queue until ``send_timeout_s`` is
            over.
        repeats_max: How often a batch is sent again that is not idempotent, although an earlier try
            may have stored it: each repeat may store it twice. What was surely not stored is
            repeated until ``send_timeout_s`` is over.
        repeat_delay_s_min: Delay before the first repeat on the same broker; it doubles each time.
        repeat_delay_s_max: Upper bound of that delay.
        avoid_broker_s: How long a broker that did not answer gets no messages that others can take.
        body_bytes_max: Bytes of one body.
        delay_days_max: Days that a delivery time may be ahead. A broker that allows fewer refuses
            later ones with all messages of the same batch.
        batch_bytes_max: Bytes of records and their columns after which a batch takes no more; a
            larger message is a batch of its own.
        request_bytes_max: Bytes of batches in one call to a broker; a larger batch goes alone.
        calls_in_flight_max: Calls to one broker at the same time. Order within a queue is kept
            with any number.
        large_calls_in_flight_max: The same while 256 KiB or more wait for that broker. With 2 or
            more, many small messages are sent in two calls as well.
        busy_wait_s: How long the event loop stays awake for the answer to a message that is sent
            alone, at most 0.01 s: a core is busy meanwhile, and the answer comes sooner by what it
            takes the system to wake the process, a fifth of a round trip on a machine of two cores.
            Where much is sent at a time it changes nothing.
        compression: How large bodies are compressed: LZ4, Zstandard or zlib, each as RocketMQ does
            it. Not at all by default, because readers without this client see what is stored.
        compress_bytes_min: Bodies of fewer bytes are never compressed.
        compression_level: From 1, fast, to 9, small.
        queue_choice: Where messages for no particular queue go: "round_robin", or "least_latency",
            which leaves brokers alone that were slow or failed.
        spread_count: Messages for no particular queue after which the next queue takes over: so all
            consumers of a group get some of what is sent together. A batch or table is divided
            into equal shares of no fewer. Many in a row take queues in turn, whole. 0: a whole
            batch goes to one queue, which is a little faster where queues are many.
        latency_bounds_s: Latencies of a call from which a broker is left alone, ascending.
        unavailable_s: How long it is left alone, for each of those.
        failed_call_latency_s: The latency as which a call counts that got no answer.
        buffered_bytes_max: Bytes of records that wait or are in flight; senders wait beyond that.
        tracer_provider: Makes OpenTelemetry spans; nothing means the application's global one.
        meter_provider: The same for measurements.
        otlp_endpoint: Collector that is told spans by OTLP over gRPC, such as
            ``http://collector:4317``, for applications that configure no OpenTelemetry themselves.
            Empty: none.
        message_trace: Whether each step of a message's life is told in the trace topic, where
            ``ariane message trace`` finds it. Costs about as much as the messages themselves.
        stacks_on_request: Whether operators who ask are told what threads and tasks of this process
            are at: names, places in code, and no values.
            Only a producer with a transaction checker can be asked.
    """

    call_timeout_s: float = 3.0
    send_timeout_s: float = 10.0
    idempotent: bool = True
    repeats_max: int = 2
    repeat_delay_s_min: float = 0.05
    repeat_delay_s_max: float = 1.0
    avoid_broker_s: float = 2.0
    body_bytes_max: int = BODY_BYTES_MAX
    delay_days_max: float = 40.0
    batch_bytes_max: int = 2 << 20
    request_bytes_max: int = 4_000_000
    calls_in_flight_max: int = 1
    large_calls_in_flight_max: int = 4
    busy_wait_s: float = 0.0
    compression: Compression = Compression.NONE
    compress_bytes_min: int = 4096
    compression_level: int = 5
    queue_choice: Literal["round_robin", "least_latency"] = "round_robin"
    spread_count: int = 24
    latency_bounds_s: tuple[float, ...] = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
    unavailable_s: tuple[float, ...] = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
    failed_call_latency_s: float = 10.0
    buffered_bytes_max: int = 64 << 20
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    otlp_endpoint: str = ""
    message_trace: bool = False
    stacks_on_request: bool = True

    def __post_init__(self) -> None:
        """Refuse what no producer can live with.

        Raises:
            IllegalArgument: Names the setting.
        """
        _check_numbers(self, fields(self))
        if self.busy_wait_s > BUSY_WAIT_S_MAX:
            raise IllegalArgument(f"busy_wait_s {self.busy_wait_s}: {BUSY_WAIT_S_MAX} at most")
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
    """What can be set of every consumer that owns queues: ``PushSettings`` and ``PullSettings``.

    Attributes:
        call_timeout_s: How long a call other than a held pull may take, in seconds; the start waits
            for three, while no broker answers.
        hold_s: How long a broker holds a pull that finds nothing, at most 30.
        pull_record_count_max: Messages in the answer to one pull.
        pull_bytes_max: Bytes in the answer to one pull, about.
        queue_message_count_max: Messages of one queue that wait for the application; beyond that
            the queue is not pulled.
        queue_bytes_max: The same in bytes of records.
        queue_span_max: Distance of the newest from the oldest unfinished message of one queue.
        rebalance_interval_s: How often the assignment is computed anew without being told.
        rebalance_gap_s_min: Time between two computations, however often it is told.
        handover_s: How long a member of a larger group waits before it takes over a queue, so that
            the one before can finish and store its offset.
        offset_store_interval_s: How often consumer offsets are stored.
        release_timeout_s: How long a queue that is given up, or a consumer that stops, waits for
            the application to finish.
        filter_servers_wait_s: How long a consumer of an uploaded filter waits while a broker has no
            FilterServer that answers; then it ends with ``FilterServersUnreachable``.
        zone: The machine room of this consumer, told to the group; may be empty.
        instance_name: Tells broadcasting consumers of one host apart that have the same group.
        local_offsets_path: Folder for the offsets of broadcasting consumers;
            ``~/.ariane_offsets`` if not given.
        stacks_on_request: Whether operators who ask are told what threads and tasks of this process
            are at: names, places in code, and no values.
    """

    call_timeout_s: float = 3.0
    hold_s: float = 15.0
    pull_record_count_max: int = 4096
    pull_bytes_max: int = 2 << 20
    queue_message_count_max: int = 1000
    queue_bytes_max: int = 100 << 20
    queue_span_max: int = 2000
    rebalance_interval_s: float = 20.0
    rebalance_gap_s_min: float = 1.0
    handover_s: float = 1.5
    offset_store_interval_s: float = 5.0
    release_timeout_s: float = 10.0
    filter_servers_wait_s: float = 30.0
    zone: str = ""
    instance_name: str = "default"
    local_offsets_path: Path | None = None
    stacks_on_request: bool = True

    def __post_init__(self) -> None:
        """Refuse what no consumer can live with.

        Raises:
            IllegalArgument: Names the setting.
        """
        _check_numbers(self, fields(self))
        if self.hold_s > HOLD_S_MAX:
            raise IllegalArgument(
                f"hold_s {self.hold_s}: brokers hold for {HOLD_S_MAX:g} s at most"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings(ConsumerSettings):
    """How a push consumer behaves: the fields of every consumer, and these.

    Attributes:
        queue_concurrency: Deliveries of one queue that a listener has at once. With 1 the messages
            of a queue come in order; with more, the offset that is stored is the smallest that is
            unfinished.
        listener_threads: Threads for a listener that is a plain function.
        redelivery_delay_s_min: Delay before messages are delivered again whose listener failed, and
            that could not be sent back to their broker; it doubles each time, up to a minute.
        attempts_max: How often a message that failed is tried again before it becomes a dead
            letter; 0 leaves that to the group.
        suspend_s: How long a queue that is consumed in order waits before a batch comes again whose
            listener failed.
        tracer_provider: Makes OpenTelemetry spans; nothing means the application's global one.
        meter_provider: The same for measurements.
        otlp_endpoint: Collector that is told spans by OTLP over gRPC, such as
            ``http://collector:4317``, for applications that configure no OpenTelemetry themselves.
            Empty: none.
        message_trace: Whether each step of a message's life is told in the trace topic, where
            ``ariane message trace`` finds it. Costs about as much as the messages themselves.
        consume_on_request: Whether the listener also gets a message that an operator asks this
            consumer to consume, beside what it has.
    """

    queue_concurrency: int = 1
    listener_threads: int = 20
    redelivery_delay_s_min: float = 1.0
    attempts_max: int = 0
    suspend_s: float = 1.0
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    otlp_endpoint: str = ""
    message_trace: bool = False
    consume_on_request: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings(ConsumerSettings):
    """How a pull consumer behaves: the fields of every consumer.

    With ``column_names`` the limits of numbers of messages and ``pull_bytes_max`` are larger, for a
    message of a record batch is no object: 65,536 messages and 8 MiB.
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
    """The settings that an application gave, or the defaults.

    Raises:
        IllegalArgument: They are those of another client.
    """
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise IllegalArgument(f"settings {settings!r:.100}: {kind.__name__} is expected")
    return settings


def _check_numbers(settings: object, numbers: Collection[Field[Any]]) -> None:
    for number in numbers:
        name, kind = number.name, type(number.default)
        if kind not in (int, float):
            continue
        value: object = getattr(settings, name)
        wanted = int if kind is int else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise IllegalArgument(f"{name} {value!r:.100}: a number is expected")
        if math.isnan(value) or value < 0 or (value == 0 and name in _POSITIVE):
            least = "above 0" if name in _POSITIVE else "0 or more"
            raise IllegalArgument(f"{name} {value}: {least} is expected")
