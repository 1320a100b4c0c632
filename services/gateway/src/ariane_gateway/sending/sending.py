"""Sends: all messages of a user's clients go through one producer, which batches by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from ariane_gateway.brokers.acting import USER, ClusterTls, acting_as
from ariane_gateway.brokers.cluster import Cluster, refusing
from ariane_gateway.refusals import refused_by
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_sdk import HalfMessage, Producer, ProducerSettings
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import RelayedMessage

PRODUCERS_MAX: Final = 1024
"""Producers that are kept: one for each user, or address of one who is judged by it."""


class Sent(NamedTuple):
    """Where a message was stored."""

    broker_name: str
    """The broker."""
    queue_offset: int
    """Its place in its queue; of a delayed message, of the place where it waits."""
    recall_handle: str
    """Takes a delayed message back; empty for others."""


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
        self._producers: dict[str, Producer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for the outcome of all sends, and disconnect."""
        closing = (producer.close() for producer in self._producers.values())
        await asyncio.gather(*closing, *self._closing)

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
        producer = await self._producer()
        try:
            result = await producer.send(
                message, timeout_s=min(timeout_s, self._settings.send_timeout_s)
            )
        except ArianeError as error:
            raise refused_by(error) from error
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
            half = await (await self._producer()).send_half(message, immunity_s=immunity_s)
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
                await (await self._producer()).commit(half)
            else:
                await (await self._producer()).rollback(half)

    async def recall(self, recall_handle: str) -> bool:
        """Take a delayed message back.

        Returns:
            Whether it will not be delivered.

        Raises:
            Refused: The handle is none, the message is not known, or its broker did not answer.
        """
        with refusing():
            return await (await self._producer()).recall(recall_handle)

    async def _producer(self) -> Producer:
        """The producer of the user of the call in work: brokers judge each by his own rights."""
        user = USER.get()
        producer = self._producers.pop(user, None)
        if producer is not None:
            self._producers[user] = producer  # The one used least lately stays first.
        else:
            tls = acting_as(self._tls, user) if user else self._tls
            made = Producer(self._name_servers, settings=self._settings, tls=tls)
            await made.start()
            producer = self._producers.setdefault(user, made)
            if producer is not made:  # Another call was faster.
                await made.close()
            elif len(self._producers) > PRODUCERS_MAX:
                self._close(self._producers.pop(next(iter(self._producers))))
        return producer

    def _close(self, producer: Producer) -> None:
        """Have a producer end its sends; nobody gets it any more."""
        closing = asyncio.create_task(producer.close(), name="gateway-producer-closes")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
