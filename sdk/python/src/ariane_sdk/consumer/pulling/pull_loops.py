"""The pull loops of a consumer, made when they get their first queue.

One loop pulls from each broker. Queues whose topics have an uploaded filter have a loop of their
own: it pulls from the FilterServers beside the broker, and their failures do not hold up others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final
from zlib import crc32

from grpc.aio import AioRpcError

from ariane.filter.v1.filter_service_pb2 import UploadFilterRequest
from ariane_sdk.checks.uploaded_filter import UploadedFilter
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.consumer.pulling.pull_loop import PullLoop
from ariane_sdk.consumer.pulling.pull_source import BrokerSource, FilterServerSource, PullSource
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.log import logger

FILTER_LOAD_S: Final = 60.0
"""How long a FilterServer may take to load a filter that is uploaded."""


class PullLoops:
    """Pull loops by broker, and by source."""

    def __init__(
        self,
        session: Session,
        plan: ConsumerPlan,
        *,
        locks: QueueLocks | None,
        on_lost: Callable[[MessageQueue, CallError], None],
        on_fatal: Callable[[CallError], None],
        damaged_bodies: DamagedBodies,
    ) -> None:
        """Start without queues.

        Args:
            session: The parts of the client.
            plan: What the consumer is to be.
            locks: The locks of its queues; None unless queues are consumed in order.
            on_lost: Called when another member has locked a queue.
            on_fatal: Called when the group no longer accepts this consumer.
            damaged_bodies: Gives up messages that columns or filters cannot read.
        """
        self._connections = session.connections
        self._routes = session.routes
        self._calls = session.calls
        self._plan = plan
        self._filters = plan.filters
        self._locks = locks
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._damaged_bodies = damaged_bodies
        self._lost_messages = LostMessages(
            fails=plan.settings.fail_on_lost_messages,
            group=plan.group,
            meter_provider=plan.settings.meter_provider,
        )
        self._broker_loops: dict[str, PullLoop] = {}
        self._filter_loops: dict[str, PullLoop] = {}
        self._loop_of: dict[MessageQueue, tuple[PullLoop, OwnedQueue]] = {}

    @property
    def lost_count(self) -> int:
        """How many damaged messages were passed over."""
        return self._lost_messages.count

    def add(self, owned: OwnedQueue) -> None:
        """Add a queue."""
        loop = self._loop_for(owned.queue)
        self._loop_of[owned.queue] = loop, owned
        loop.add(owned)

    def remove(self, queue: MessageQueue) -> None:
        """Remove a queue; an answer on its way is dropped."""
        found = self._loop_of.pop(queue, None)
        if found is not None:
            found[0].remove(queue)

    def look_again_at(self, queue: MessageQueue) -> None:
        """Pull a queue again if it has room."""
        found = self._loop_of.get(queue)
        if found is not None:
            found[0].look_again()

    def look_again(self) -> None:
        """Follow changed filters, which may change where queues are pulled from."""
        for queue, (loop, owned) in list(self._loop_of.items()):
            wanted = self._loop_for(queue)
            if wanted is not loop:
                loop.remove(queue)
                self._loop_of[queue] = wanted, owned
                wanted.add(owned)
        for loop in self._loops():
            loop.look_again()

    def _loops(self) -> list[PullLoop]:
        return [*self._broker_loops.values(), *self._filter_loops.values()]

    def _loop_for(self, queue: MessageQueue) -> PullLoop:
        """Return the loop that pulls a queue: from its broker, or from FilterServers beside it."""
        name = queue.broker_name
        if isinstance(self._filters.get(queue.topic), UploadedFilter):
            loops, make_source = self._filter_loops, self._filter_server_source
        else:
            loops, make_source = self._broker_loops, self._broker_source
        loop = loops.get(name)
        if loop is None:
            loop = loops[name] = PullLoop(
                name,
                self._connections,
                self._plan,
                source=make_source(name),
                on_trouble=self._suspect,
                on_lost=self._on_lost,
                damaged_bodies=self._damaged_bodies,
                lost_messages=self._lost_messages,
                on_fatal=self._on_fatal,
                lock_epoch_of=self._locks.epoch_of if self._locks is not None else lambda _: None,
            )
        return loop

    def _broker_source(self, broker_name: str) -> PullSource:
        return BrokerSource(
            broker_name,
            partial(self._read_address, broker_name),
            partial(self._replicas, broker_name),
        )

    def _filter_server_source(self, broker_name: str) -> PullSource:
        return FilterServerSource(
            broker_name,
            partial(self._filter_servers, broker_name),
            first=crc32(self._plan.client_id.encode()),
            wait_s=self._plan.settings.filter_servers_wait_s,
            clock=self._plan.clock,
            broker_answers=partial(self._ask_broker, broker_name),
            upload=self._upload_filters,
            on_fatal=self._on_fatal,
        )

    async def _upload_filters(self, address: str) -> bool:
        """Upload the filters whose code is known to a FilterServer.

        Raises:
            CallError: It refuses one of them.
        """
        known = {
            each.uploaded.filter_version: each.uploaded.module
            for each in self._filters.values()
            if isinstance(each, UploadedFilter) and each.uploaded.module
        }
        for filter_version, module in known.items():
            request = UploadFilterRequest(filter=filter_version.split("@")[0], module=module)
            try:
                await self._connections.filters(address).UploadFilter(
                    request, timeout=FILTER_LOAD_S
                )
            except AioRpcError as error:
                raise error_from_rpc(error, peer=f"FilterServer {address}") from error
            logger.info("uploaded filter %s to %s", filter_version, address)
        return bool(known)

    async def close(self) -> None:
        """Stop pulling."""
        await asyncio.gather(*(loop.close() for loop in self._loops()))

    def _routes_to(self, broker_name: str) -> Iterator[tuple[str, BrokerRoute]]:
        """The routes to a broker, with their topics."""
        for route in self._routes.latest_first(self._filters):
            broker = route.broker(broker_name)
            if broker is not None:
                yield route.topic, broker

    def _read_address(self, broker_name: str) -> str:
        """The address of a broker; empty if no route has it."""
        addresses = (broker.read_address for _, broker in self._routes_to(broker_name))
        return next(filter(None, addresses), "")

    def _replicas(self, broker_name: str) -> Sequence[str]:
        """The addresses of the replicas of a broker; empty if no route has any."""
        replicas = (broker.replica_addresses for _, broker in self._routes_to(broker_name))
        return next(filter(None, replicas), ())

    def _filter_servers(self, broker_name: str) -> Sequence[str]:
        """The addresses of the FilterServers beside a broker; empty if no route has any."""
        servers = (broker.filter_servers for _, broker in self._routes_to(broker_name))
        return next(filter(None, servers), ())

    async def _ask_broker(self, broker_name: str) -> None:
        """Check that a broker answers.

        Raises:
            CallError: It does not answer, or its address is unknown.
        """
        for topic, broker in self._routes_to(broker_name):
            await self._calls.queue_bounds(broker, topic)
            return
        raise CallError(f"no address of broker {broker_name} is known", retriable=True)

    def _suspect(self, topic: str, error: CallError) -> None:
        """Doubt the route after a failed pull; the consumer ends if the group has refused it."""
        if error.reason == "SUBSCRIPTION_CONFLICT":
            self._on_fatal(error)
        self._routes.doubt(topic)
