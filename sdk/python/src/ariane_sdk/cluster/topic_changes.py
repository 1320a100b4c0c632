"""Creating and deleting topics at every primary, with the fixed order of their queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, DeleteTopicRequest, Topic
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_FIFO, MESSAGE_TYPE_UNSPECIFIED
from ariane_sdk.checks.queue_arguments import checked_count
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.cluster.primaries import at_every_primary
from ariane_sdk.cluster.queue_order import QueueOrders
from ariane_sdk.errors import CallError, RouteNotFound, TopicExists, TopicNotFound
from ariane_sdk.net.connections import Connections
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.route import Route

RouteOf: TypeAlias = Callable[[str], Awaitable[Route]]
"""Returns the present route of a topic from a name server; raises ``RouteNotFound``."""


class TopicChanges:
    """Creates and deletes topics of one cluster."""

    def __init__(
        self,
        connections: Connections,
        primaries: Sequence[LiveBroker],
        orders: QueueOrders,
        route_of: RouteOf,
        *,
        timeout_s: float,
    ) -> None:
        self._connections = connections
        self._primaries = primaries
        self._orders = orders
        self._route_of = route_of
        self._timeout_s = timeout_s

    async def create(self, topic: str, queue_count: int, *, exists_ok: bool, fifo: bool) -> None:
        """Create a topic; the order of a FIFO topic is stored first.

        Raises:
            IllegalArgument: It would have no queue.
            TopicExists: A broker has it already; others may have created it.
            ServiceUnavailable: There is no broker.
            CallError: A broker did not create it; others may have.
        """
        checked_count("queue_count", queue_count)
        request = CreateTopicRequest(
            topic=Topic(
                topic=topic,
                read_queue_count=queue_count,
                write_queue_count=queue_count,
                message_type=MESSAGE_TYPE_FIFO if fifo else MESSAGE_TYPE_UNSPECIFIED,
            )
        )

        async def create_at(broker: LiveBroker) -> None:
            stub = self._connections.topics(broker.address)
            try:
                await answer_of(
                    stub.CreateTopic(request, timeout=self._timeout_s), _name_of(broker)
                )
            except TopicExists:
                if not exists_ok:
                    raise

        if not fifo:
            await at_every_primary(self._primaries, create_at)
            return
        counts = {each.broker_name: queue_count for each in self._primaries}
        async with self.queue_order_first(topic, counts):
            await at_every_primary(self._primaries, create_at)

    async def delete(self, topic: str, *, missing_ok: bool) -> None:
        """Delete a topic, then the order of its queues.

        Raises:
            TopicNotFound: No broker has it.
            RouteNotFound: Live brokers have deleted it if they had it; one that is away has it.
            CallError: A broker did not delete it; others may have.
        """
        request = DeleteTopicRequest(topic=topic)
        unknown: RouteNotFound | None = None
        try:
            route = await self._route_of(topic)
            away, order = route.away_brokers, route.queue_order
        except RouteNotFound as error:
            away, order = error.away_brokers, error.metadata.get("queue_order", "")
            # An order alone may be all that is left of a topic.
            unknown = error if away else None
        deleted_count = 0

        async def delete_at(broker: LiveBroker) -> None:
            nonlocal deleted_count
            stub = self._connections.topics(broker.address)
            with suppress(TopicNotFound):
                await answer_of(
                    stub.DeleteTopic(request, timeout=self._timeout_s), _name_of(broker)
                )
                deleted_count += 1

        await at_every_primary(self._primaries, delete_at)
        if unknown is not None and not deleted_count:
            raise unknown
        if away:
            raise RouteNotFound.still_at(topic, away)
        if not deleted_count and not missing_ok:
            raise TopicNotFound(f"no broker has topic {topic!r}", metadata={"topic": topic})
        if order:
            await self._orders.delete(topic)

    @asynccontextmanager
    async def queue_order_first(self, topic: str, counts: Mapping[str, int]) -> AsyncIterator[None]:
        """Fix the order of queues while a topic is created; see ``ClusterClient``."""
        if await self._standing(topic) != (False, "") or not counts:
            yield
            return
        try:
            await self._orders.put(topic, counts)
            yield
        except BaseException:
            with suppress(CallError):
                if not (await self._standing(topic))[0]:
                    await self._orders.delete(topic)
            raise

    async def _standing(self, topic: str) -> tuple[bool, str]:
        """Whether any broker has a topic; and the order of its queues, which may outlive it."""
        try:
            return True, (await self._route_of(topic)).queue_order
        except RouteNotFound as unknown:
            return False, unknown.metadata.get("queue_order", "")


def _name_of(broker: LiveBroker) -> str:
    return f"broker {broker.broker_name} at {broker.address}"
