"""Sends: all messages of all clients go through one producer, which batches by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ariane_gateway.brokers.cluster import Cluster, refusing
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_sdk import HalfMessage, Producer, ProducerSettings, Tls
from ariane_sdk.message import RelayedMessage


class Sent(NamedTuple):
    """Where a message was stored.

    Attributes:
        broker_name: The broker.
        queue_offset: Its place in its queue; of a delayed message, of the place where it waits.
        recall_handle: Takes a delayed message back; empty for others.
    """

    broker_name: str
    queue_offset: int
    recall_handle: str


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
        tls: Tls | Literal[False],
    ) -> None:
        """Connect later: see ``open``.

        Args:
            cluster: The brokers.
            name_servers: "host:port" of each.
            settings: How messages are sent.
            tls: As ``Cluster``.
        """
        self._tls = tls
        self._cluster = cluster
        self._name_servers = name_servers
        self._settings = settings
        self._producer: Producer | None = None

    async def open(self) -> None:
        """Start the producer; it connects when it sends."""
        self._producer = Producer(self._name_servers, settings=self._settings, tls=self._tls)
        await self._producer.start()

    async def close(self) -> None:
        """Wait for the outcome of all sends, and disconnect."""
        if self._producer is not None:
            await self._producer.close()

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
        # A name that nobody knows must not take a place among the producer's topics.
        await self._cluster.route(message.topic)
        with refusing():
            result = await self._opened.send(
                message, timeout_s=min(timeout_s, self._settings.send_timeout_s)
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
        await self._cluster.route(message.topic)
        message.producer_group = message.topic
        with refusing():
            half = await self._opened.send_half(message, immunity_s=immunity_s)
        return TransactionHandle(half.broker_name, half.transaction_id)

    async def end_transaction(self, topic: str, handle: TransactionHandle, *, commit: bool) -> None:
        """Commit a transaction, or roll it back. Repeating it changes nothing.

        Raises:
            Refused: It has ended otherwise, is not known, or its broker did not answer.
        """
        half = HalfMessage(handle.unique_id, topic, handle.broker_name, producer_group=topic)
        await self._cluster.route(topic)
        with refusing():
            if commit:
                await self._opened.commit(half)
            else:
                await self._opened.rollback(half)

    async def recall(self, recall_handle: str) -> bool:
        """Take a delayed message back.

        Returns:
            Whether it will not be delivered.

        Raises:
            Refused: The handle is none, the message is not known, or its broker did not answer.
        """
        with refusing():
            return await self._opened.recall(recall_handle)

    @property
    def _opened(self) -> Producer:
        if self._producer is None:
            raise AssertionError("sending was not opened")
        return self._producer
