"""The owners of a group's queues, from the answers of its members."""

from __future__ import annotations

import asyncio

from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.live_broker import LiveBroker, route_to


class QueueOwners:
    """Asks the members of a group that are attached to some brokers."""

    def __init__(self, calls: BrokerCalls, group: str) -> None:
        self.found: dict[MessageQueue, str] = {}
        """The client id of the owner of each queue, for queues that a member owns."""
        self._calls = calls
        self._group = group

    async def ask(self, broker: LiveBroker) -> None:
        """Ask the members that are attached to a broker.

        Raises:
            CallError: The broker did not return its members.
        """
        members = await self._calls.group_members(route_to(broker), self._group)
        await asyncio.gather(*(self._ask_member(broker, each.client_id) for each in members))

    async def _ask_member(self, broker: LiveBroker, client_id: str) -> None:
        try:
            answer = await self._calls.client_queues(route_to(broker), client_id)
        except CallError:
            return  # The member has left, or is too busy to answer.
        self.found.update(
            (MessageQueue(each.topic, each.broker_name, each.queue_id), client_id)
            for each in answer
        )
