"""Sends: all messages of a user's clients go through one producer, which batches by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from ariane_gateway.brokers.acting import USER, ClusterTls, acting_as
from ariane_gateway.brokers.cluster import ROUTE_UNUSED_S, Cluster, refusing
from ariane_gateway.refusals import refused_by
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_sdk import HalfMessage, Producer, ProducerSettings
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import RelayedMessage

ResultT = TypeVar("ResultT")

PRODUCERS_MAX: Final = 1024
"""Producers that are kept: one for each user, or address of one who is judged by it."""

TOPICS_UNUSED_MAX: Final = 64
"""Topics that nobody sends to any longer and a producer may have, or as many as it has others: it
asks for their routes every 30 s."""


class Sent(NamedTuple):
    """Where a message was stored."""

    broker_name: str
    """The broker."""
    queue_offset: int
    """Its place in its queue; of a delayed message, of the place where it waits."""
    recall_handle: str
    """Takes a delayed message back; empty for others."""


@dataclass(slots=True, eq=False)
class _Kept:
    """A producer, and what it is used for."""

    producer: Producer
    """The producer of a user."""
    used_s: dict[str, float] = field(default_factory=dict)
    """When each topic was last used, by the monotonic clock."""
    call_count: int = 0
    """Calls in work."""
    is_retired: bool = False
    """Whether it closes when its last call ends, and no other call begins."""


class Sending:
    """Sends messages of clients.

    The producer group of a transaction is named after its topic, as with RocketMQ's proxy: any
    producer of the topic can be asked about it.
    """

    def __init__(
        self,
        cluster: Cluster,
        name_servers: Sequence[str],
        settings: ProducerSettings,
        *,
        tls: ClusterTls,
    ) -> None:
        """Connect when something is sent.

        Args:
            cluster: The brokers.
            name_servers: Addresses or sources of name servers.
            settings: How messages are sent.
            tls: As ``Cluster``.
        """
        self._tls = tls
        self._cluster = cluster
        self._name_servers = name_servers
        self._settings = settings
        self._producers: dict[str, _Kept] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for the outcome of all sends, and disconnect."""
        closing = (kept.producer.close() for kept in self._producers.values())
        await asyncio.gather(*closing, *self._closing)

    def forget_unused(self) -> None:
        """Close producers that nobody uses, and those of whose topics most are not used."""
        if self._cluster.silent:
            return
        begin_s = self._cluster.clock.monotonic_s() - ROUTE_UNUSED_S
        for user, kept in list(self._producers.items()):
            used_count = sum(used_s >= begin_s for used_s in kept.used_s.values())
            unused_count = len(kept.used_s) - used_count
            if not used_count or unused_count > max(used_count, TOPICS_UNUSED_MAX):
                self._retire(user)

    async def send(self, message: RelayedMessage, timeout_s: float) -> Sent:
        """Send one message, and wait until it is as safe as its broker promises.

        Messages of one message group go to one queue by the rule of the cluster, whichever client
        sends them.

        Args:
            message: The message.
            timeout_s: How long its sender waits, in seconds.

        Raises:
            Refused: It is not acknowledged.
        """
        timeout_s = min(timeout_s, self._settings.send_timeout_s)
        result = await self._by_producer(
            message.topic, lambda producer: producer.send(message, timeout_s=timeout_s)
        )
        return Sent(result.message_queue.broker_name, result.queue_offset, result.recall_handle)

    async def send_half(self, message: RelayedMessage, immunity_s: int | None) -> TransactionHandle:
        """Store a message that no consumer sees before its transaction is committed.

        Args:
            message: The message.
            immunity_s: How long nobody asks about it, in seconds; None for the cluster's default.

        Raises:
            Refused: It is not acknowledged.
        """
        message.producer_group = message.topic
        half = await self._by_producer(
            message.topic, lambda producer: producer.send_half(message, immunity_s=immunity_s)
        )
        return TransactionHandle(half.broker_name, half.transaction_id)

    async def end_transaction(self, topic: str, handle: TransactionHandle, *, commit: bool) -> None:
        """Commit a transaction, or roll it back. Repeating it changes nothing.

        Raises:
            Refused: It has ended otherwise, is not known, or its broker did not answer.
        """
        half = HalfMessage(handle.unique_id, topic, handle.broker_name, producer_group=topic)
        await self._by_producer(
            topic, lambda producer: (producer.commit if commit else producer.rollback)(half)
        )

    async def recall(self, topic: str, recall_handle: str) -> bool:
        """Take a delayed message of a topic back.

        Returns:
            Whether it will not be delivered.

        Raises:
            Refused: The handle is none, the message is not known, or its broker did not answer.
        """
        return await self._by_producer(topic, lambda producer: producer.recall(recall_handle))

    async def _by_producer(
        self, topic: str, work: Callable[[Producer], Awaitable[ResultT]]
    ) -> ResultT:
        """Have the producer of the user of the call in work do something for a topic.

        Brokers judge each user by his own rights.

        Raises:
            Refused: There is no such topic, or the producer fails at it.
        """
        # A name that nobody knows must not take a place among the producer's topics.
        await self._cluster.route(topic)
        user = USER.get()
        kept = self._producers.pop(user, None)
        if kept is not None:
            self._producers[user] = kept  # The one used least lately stays first.
        else:
            with refusing():
                kept = await self._made(user)
        kept.call_count += 1
        kept.used_s[topic] = self._cluster.clock.monotonic_s()
        try:
            return await work(kept.producer)
        except ArianeError as error:
            raise refused_by(error) from error
        finally:
            kept.call_count -= 1
            self._close_retired(kept)

    async def _made(self, user: str) -> _Kept:
        """A new producer of a user, unless another call is faster."""
        tls = acting_as(self._tls, user) if user else self._tls
        made = Producer(self._name_servers, settings=self._settings, tls=tls)
        await made.start()
        faster = self._producers.get(user)
        if faster is not None:
            self._close(made)
            return faster
        self._producers[user] = kept = _Kept(made)
        if len(self._producers) > PRODUCERS_MAX:
            self._retire(next(iter(self._producers)))
        return kept

    def _retire(self, user: str) -> None:
        kept = self._producers.pop(user)
        kept.is_retired = True
        self._close_retired(kept)

    def _close_retired(self, kept: _Kept) -> None:
        if kept.is_retired and not kept.call_count:
            self._close(kept.producer)

    def _close(self, producer: Producer) -> None:
        """Have a producer end its sends; nobody gets it any more."""
        closing = asyncio.create_task(producer.close(), name="gateway-producer-closes")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
