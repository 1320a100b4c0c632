"""Connections of this process, made when first needed and kept.

Spark forks its workers from a daemon and uses them again and again, micro-batch after micro-batch.
So a connection is worth keeping, must be made after the fork, and is never made on import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ariane_record.encoding.kept_memory import keep_freed_memory
from ariane_sdk.errors import RouteNotFound
from ariane_spark.calls.batch_transactions import WRITE_POLICY, BatchTransactions
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.cluster import Cluster
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.routes import LiveBrokers, Routes
from ariane_spark.calls.sink_batches import Sink
from ariane_spark.calls.spared_modules import spare_modules
from ariane_spark.calls.task_spans import span_provider
from ariane_spark.errors import QueueNotFound
from ariane_spark.options.access_options import JobAccess, given_access, scope_of
from ariane_spark.options.options import ReadOptions
from ariane_spark.options.write_options import (
    WriteOptions,
    without_those_of_spark,
    write_options,
)

if TYPE_CHECKING:
    from ariane_sdk.sync import Producer

SEND_S_MAX: Final = 60.0
"""How long a message may wait for a broker that restarts. This is better than an error, because a
repeated task writes everything again."""

FIRST_ANSWER_S_MAX: Final = 3.0
"""How long a write waits for the first answer of one name server."""

_kept: Final[dict[tuple[int, str, Hashable], Any]] = {}

_ConnectionT = TypeVar("_ConnectionT")


class BrokerConnections(NamedTuple):
    """What reaches each broker of a cluster."""

    routes: Routes
    """Where they are."""
    channels: Channels
    """One to each."""


def connect_once(options: ReadOptions) -> Cluster:
    """The connection to the cluster of these options."""
    return _once(
        "read",
        (options.endpoints, options.requests, scope_of(options.access)),
        lambda: QueueClient(
            options.endpoints, options.requests, channels=_channels_of(options.access)
        ),
    )


def check_target(given: Mapping[str, str]) -> None:
    """Check on the driver that a write can find its place, before tasks wait or fail for it.

    Args:
        given: The user's options.

    Raises:
        ArianeError: No name server answers, now or before; or what answers is none.
        QueueNotFound: Exactly once, a topic does not exist, or takes no messages.
        RouteNotFound: Exactly once, all brokers of a topic stay away.
    """
    options, access = write_options(without_those_of_spark(given)), given_access(given)

    def ask() -> LiveBrokers:
        routes = Routes(options.endpoints, _channels_of(access), timeout_s=FIRST_ANSWER_S_MAX)
        return Repetition(WRITE_POLICY).ask(routes.brokers)

    _once("check", (options.endpoints, access), ask)
    if options.exactly_once:  # Otherwise the first message may create a topic.
        calls = _once(
            "checked transactions",
            (options.endpoints, access),
            lambda: BatchTransactions(options.endpoints, channels=_channels_of(access)),
        )
        _check_topics(options, calls)


def _check_topics(options: WriteOptions, calls: BatchTransactions) -> None:
    sink = Sink("", options.topic, options.sink_brokers)
    for topic in filter(None, (options.topic, options.dead_letter_topic)):
        try:
            calls.write_queues(sink, topic)
        except RouteNotFound as error:
            # Who creates it at other brokers has them write again what its own have committed.
            if error.may_come_back:
                raise
            raise QueueNotFound(
                f"no live broker has topic {topic}, and a write exactly once creates none:"
                f" ariane topic create {topic}"
            ) from error


def connect_producer_once(options: WriteOptions) -> Producer:
    """The producer of this process for the cluster of these options."""

    def start() -> Producer:
        # Most of the SDK, which takes long to import: tasks that read, and planners, go without.
        from ariane_sdk import ProducerSettings  # noqa: PLC0415 - see above.
        from ariane_sdk.sync import Producer  # noqa: PLC0415 - see above.

        settings = ProducerSettings(
            send_timeout_s=SEND_S_MAX,
            batch_bytes_max=options.batch_bytes,
            calls_in_flight_max=options.calls_max,
            compression=options.compression.kind,
            compress_bytes_min=options.compression.bytes_min,
            compression_level=options.compression.level,
            tracer_provider=(
                span_provider(options.otlp_endpoint) if options.otlp_endpoint else None
            ),
        )
        producer = Producer(
            options.endpoints,
            group="ariane-spark",
            settings=settings,
            tls=options.access.tls(),
            credentials=options.access.credentials(),
        )
        producer.start()
        return producer

    key = (
        *(options.endpoints, options.batch_bytes, options.calls_max, options.compression),
        *(options.otlp_endpoint, scope_of(options.access)),
    )
    return _once("write", key, start)


def connect_transactions_once(options: WriteOptions) -> BatchTransactions:
    """The batch transactions of this process with the cluster of these options."""
    return _once(
        "transactions",
        (options.endpoints, scope_of(options.access)),
        lambda: BatchTransactions(options.endpoints, channels=_channels_of(options.access)),
    )


def connect_brokers_once(options: ReadOptions) -> BrokerConnections:
    """What reaches each broker of the cluster of these options."""

    def make() -> BrokerConnections:
        channels = _channels_of(options.access)
        timeout_s = options.requests.timeout_ms / 1000
        return BrokerConnections(Routes(options.endpoints, channels, timeout_s=timeout_s), channels)

    return _once("brokers", (options.endpoints, options.requests, scope_of(options.access)), make)


def _channels_of(access: JobAccess) -> Channels:
    """The channels of this process for what it logs in by: one to each broker, whoever uses it."""
    return _once("channels", scope_of(access), lambda: Channels(access))


def _once(use: str, key: Hashable, make: Callable[[], _ConnectionT]) -> _ConnectionT:
    """The connection for a use in this process; a forked child makes its own."""
    # Not only the first time: some modules are loaded by the first batch.
    spare_modules()
    place = (os.getpid(), use, key)
    if place not in _kept:
        keep_freed_memory()
        _kept[place] = make()
    connection: _ConnectionT = _kept[place]
    return connection
