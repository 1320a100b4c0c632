"""The fixed list of queues of a topic whose messages stay in order.

The hash of a message group picks its queue from a list. If that were the list of the present
routes, each restart of a broker would move groups to other queues and back, out of order. So the
name servers keep a list that does not change by itself, under RocketMQ's key
``ORDER_TOPIC_CONFIG``: "broker-a:4;broker-b:4". Sends to a queue whose broker is away wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ariane.namesrv.v1.maintenance_service_pb2 import DeleteKeyValueRequest, PutKeyValueRequest
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.net.connections import Connections

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class QueueOrders:
    """Writes the list of queues to every name server: they do not talk to each other."""

    def __init__(
        self, connections: Connections, name_servers: tuple[str, ...], timeout_s: float
    ) -> None:
        self._connections = connections
        self._name_servers = name_servers
        self._timeout_s = timeout_s

    async def put(self, topic: str, queue_counts: Mapping[str, int]) -> None:
        """Store the list.

        Args:
            topic: The topic.
            queue_counts: Number of its queues on each broker.

        Raises:
            CallError: A name server did not store it; others may have.
        """
        order = ";".join(f"{broker}:{queue_counts[broker]}" for broker in sorted(queue_counts))
        request = PutKeyValueRequest(namespace=ORDER_NAMESPACE, key=topic, value=order)

        async def put_at(address: str) -> None:
            stub = MaintenanceServiceStub(self._connections.channel(address))
            call = stub.PutKeyValue(request, timeout=self._timeout_s)
            await answer_of(call, f"name server {address}")

        await self._at_each(put_at)

    async def delete(self, topic: str) -> None:
        """Delete the list; harmless without one.

        Raises:
            CallError: A name server did not delete it; others may have.
        """
        request = DeleteKeyValueRequest(namespace=ORDER_NAMESPACE, key=topic)

        async def delete_at(address: str) -> None:
            stub = MaintenanceServiceStub(self._connections.channel(address))
            call = stub.DeleteKeyValue(request, timeout=self._timeout_s)
            await answer_of(call, f"name server {address}")

        await self._at_each(delete_at)

    async def _at_each(self, act: Callable[[str], Awaitable[None]]) -> None:
        """Call ``act`` for every name server; after all have ended, raise the first error."""
        outcomes = await asyncio.gather(*map(act, self._name_servers), return_exceptions=True)
        errors = [outcome for outcome in outcomes if outcome is not None]
        if not errors:
            return
        if len(outcomes) > 1:
            done = len(outcomes) - len(errors)
            errors[0].add_note(f"{done} of {len(outcomes)} name servers did it")
        raise errors[0]
