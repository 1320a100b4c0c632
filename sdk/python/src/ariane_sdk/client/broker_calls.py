"""Simple calls to brokers: one RPC each, with a timeout, and errors of this package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from grpc.aio import AioRpcError

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2, offset_service_pb2, pull_service_pb2
from ariane.broker.v1.client_service_pb2 import (
    GetClientStateRequest,
    ListClientsRequest,
    ListGroupMembersRequest,
)
from ariane.broker.v1.group_service_pb2 import ListConsumerGroupsRequest
from ariane.broker.v1.offset_service_pb2 import (
    STORE_RULE_UNSPECIFIED,
    GetConsumerOffsetsRequest,
    ListConsumerLagsRequest,
    QueueConsumerOffset,
    QueueReference,
    StoreConsumerOffsetsRequest,
    StoreRule,
)
from ariane.broker.v1.pull_service_pb2 import FindQueueOffsetsRequest, ListQueueBoundsRequest
from ariane_sdk.client.caution import NO_CAUTION, Caution, InWork
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.pages import Entry, all_pages
from ariane_sdk.net.status import error_from_rpc, error_from_status
from ariane_sdk.net.timestamps import moment_from, timestamp_from
from ariane_sdk.routing.route import BrokerRoute

Answer = TypeVar("Answer")


class KnownOffset(NamedTuple):
    """A broker's record of a group's offset in a queue."""

    queue_offset: int | None
    """The next queue offset that the group will consume; None if it has none."""
    reset_epoch: int
    """How often the offset was reset."""
    log_epoch: int = 0
    """The present epoch of the broker's log."""
    caution: Caution = NO_CAUTION
    """Advice for a queue in which members of the group died."""


class OffsetEpochs(NamedTuple):
    """The epochs that fence the storing of an offset."""

    lock_epoch: int | None = None
    """Epoch of the queue's lock; None without a lock."""
    reset_epoch: int | None = None
    """Reset epoch of the offset at which consuming began; None if unknown."""
    log_epoch: int = 0
    """Epoch of the broker's log when the offset was read; 0 if unknown."""


NO_EPOCHS: Final = OffsetEpochs()


async def answer_of(call: Awaitable[Answer], peer: str) -> Answer:
    """The answer to a call.

    Args:
        call: The call.
        peer: The called service, for the text of an error.

    Raises:
        CallError: The error of the service, or of gRPC.
    """
    try:
        return await call
    except AioRpcError as error:
        raise error_from_rpc(error, peer=peer) from error


class BrokerCalls:
    """Simple calls to any broker."""

    def __init__(self, connections: Connections, *, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s

    async def queue_bounds(
        self, broker: BrokerRoute, topic: str, *, replicas: bool = False
    ) -> list[tuple[MessageQueue, pull_service_pb2.QueueBounds]]:
        """Bounds of all readable queues of a topic on a broker.

        Args:
            broker: The broker.
            topic: The topic.
            replicas: Whether to ask replicas if the primary does not answer.

        Raises:
            CallError: The broker refused or did not answer.
        """
        *others, last = read_addresses(broker, replicas=replicas)
        for address in others:
            with suppress(ServiceUnavailable, DeadlinePassed):
                return await self.bounds_at(address, broker, topic)
        return await self.bounds_at(last, broker, topic)

    async def bounds_at(
        self, address: str, broker: BrokerRoute, topic: str
    ) -> list[tuple[MessageQueue, pull_service_pb2.QueueBounds]]:
        """As ``queue_bounds``, from the process at one of the broker's addresses.

        Raises:
            CallError: The process refused or did not answer.
        """
        return [
            (MessageQueue(topic, broker.broker_name, bounds.queue_id), bounds)
            for bounds in (await self._bounds(address, broker, topic)).queues
        ]

    async def broker_time(self, broker: BrokerRoute, topic: str) -> datetime:
        """The time by which a broker stores messages; ``topic`` is one that it has.

        Raises:
            CallError: The broker refused or did not answer.
        """
        return moment_from((await self._bounds(read_address(broker), broker, topic)).broker_time)

    async def _bounds(
        self, address: str, broker: BrokerRoute, topic: str
    ) -> pull_service_pb2.ListQueueBoundsResponse:
        return await answer_of(
            self._connections.pull(address).ListQueueBounds(
                ListQueueBoundsRequest(topic=topic), timeout=self._timeout_s
            ),
            f"broker {broker.broker_name} at {address}",
        )

    async def queue_offsets_at(
        self,
        broker: BrokerRoute,
        topic: str,
        when: datetime,
        boundary: pull_service_pb2.TimeBoundary.ValueType,
    ) -> dict[MessageQueue, QueuePosition]:
        """The queue offset at a time, for all readable queues of a topic.

        Raises:
            CallError: The broker refused or did not answer.
        """
        address = read_address(broker)
        response = await answer_of(
            self._connections.pull(address).FindQueueOffsets(
                FindQueueOffsetsRequest(topic=topic, time=timestamp_from(when), boundary=boundary),
                timeout=self._timeout_s,
            ),
            peer_name(broker),
        )
        return {
            MessageQueue(topic, broker.broker_name, found.queue_id): QueuePosition(
                found.queue_offset, found.log_epoch
            )
            for found in response.queues
        }

    async def stored_offsets(
        self, broker: BrokerRoute, group: str, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, int]:
        """The consumer offsets that a group has for queues of a broker; others are left out.

        Raises:
            CallError: The broker refused or did not answer.
        """
        known = await self.known_offsets(broker, group, queues)
        return {
            queue: entry.queue_offset
            for queue, entry in known.items()
            if entry.queue_offset is not None
        }

    async def known_offsets(
        self, broker: BrokerRoute, group: str, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, KnownOffset]:
        """A broker's record of a group's offsets in queues.

        Raises:
            CallError: The broker refused or did not answer.
        """
        if not queues:
            return {}
        request = GetConsumerOffsetsRequest(
            consumer_group=group,
            queues=[QueueReference(topic=q.topic, queue_id=q.queue_id) for q in queues],
        )
        response = await answer_of(
            self._connections.offsets(read_address(broker)).GetConsumerOffsets(
                request, timeout=self._timeout_s
            ),
            peer_name(broker),
        )
        return {
            MessageQueue(entry.topic, broker.broker_name, entry.queue_id): KnownOffset(
                entry.queue_offset if entry.HasField("queue_offset") else None,
                entry.reset_epoch,
                entry.log_epoch,
                Caution(entry.watched_end, entry.alone_end, entry.in_doubt),
            )
            for entry in response.offsets
        }

    async def store_offsets(
        self,
        broker: BrokerRoute,
        group: str,
        offsets: Mapping[MessageQueue, int],
        *,
        client_id: str = "",
        durable: bool = False,
        epochs: Mapping[MessageQueue, OffsetEpochs] = MappingProxyType({}),
        in_work: InWork | None = None,
        rules: Mapping[MessageQueue, StoreRule.ValueType] = MappingProxyType({}),
    ) -> dict[MessageQueue, CallError]:
        """Store consumer offsets of a group for queues of a broker.

        Args:
            broker: The broker.
            group: The group.
            offsets: The next queue offset to be consumed, by queue.
            client_id: The client that stores them; empty for tools.
            durable: Whether to return only once they are on the broker's disk.
            epochs: Epochs that fence them, by queue.
            in_work: The messages in work in each; None leaves the broker's record as it is.
            rules: What becomes of the offsets that the group has, by queue; default: they are
                raised, or stay.

        Returns:
            The errors of refused offsets; empty if all were stored.

        Raises:
            CallError: No offset was stored, as far as is known.
        """
        request = StoreConsumerOffsetsRequest(
            consumer_group=group,
            client_id=client_id,
            offsets=[
                QueueConsumerOffset(
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    queue_offset=queue_offset,
                    lock_epoch=epochs.get(queue, NO_EPOCHS).lock_epoch,
                    reset_epoch=epochs.get(queue, NO_EPOCHS).reset_epoch,
                    log_epoch=epochs.get(queue, NO_EPOCHS).log_epoch,
                    in_work_end=None if in_work is None else in_work.end,
                    alone=in_work is not None and in_work.alone,
                    rule=rules.get(queue, STORE_RULE_UNSPECIFIED),
                )
                for queue, queue_offset in offsets.items()
            ],
            durable=durable,
        )
        peer = peer_name(broker)
        response = await answer_of(
            self._connections.offsets(read_address(broker)).StoreConsumerOffsets(
                request, timeout=self._timeout_s
            ),
            peer,
        )
        return {
            MessageQueue(entry.topic, broker.broker_name, entry.queue_id): error_from_status(
                entry.error, peer=peer
            )
            for entry in response.refused
        }

    async def group_members(
        self, broker: BrokerRoute, group: str
    ) -> list[client_service_pb2.GroupMember]:
        """The live members of a group that are attached to a broker.

        Raises:
            CallError: The broker refused or did not answer.
        """
        clients = self._connections.clients(read_address(broker))

        request = ListGroupMembersRequest(consumer_group=group)
        return await self._all(broker, clients.ListGroupMembers, request, lambda p: p.members)

    async def attached_clients(
        self, broker: BrokerRoute
    ) -> list[client_service_pb2.AttachedClient]:
        """The clients that are attached to a broker, with the groups that they are members of.

        Raises:
            CallError: The broker refused or did not answer.
        """
        clients = self._connections.clients(read_address(broker))

        request = ListClientsRequest()
        return await self._all(broker, clients.ListClients, request, lambda p: p.clients)

    async def client_queues(
        self, broker: BrokerRoute, client_id: str
    ) -> Sequence[question_pb.ClientQueueState]:
        """The queues that a client reports over its stream to a broker.

        Raises:
            CallError: The client is not attached there any more, or does not answer.
        """
        request = GetClientStateRequest(client_id=client_id)
        request.wait_duration.FromMilliseconds(round(self._timeout_s * 500))
        call = self._connections.clients(read_address(broker)).GetClientState(
            request, timeout=self._timeout_s
        )
        return (await answer_of(call, peer_name(broker))).state.queues

    async def consumer_groups(self, broker: BrokerRoute) -> list[str]:
        """The names of the consumer groups that a broker knows.

        Raises:
            CallError: The broker refused or did not answer.
        """
        groups = self._connections.groups(read_address(broker))

        request = ListConsumerGroupsRequest()
        found = await self._all(broker, groups.ListConsumerGroups, request, lambda p: p.groups)
        return [group.consumer_group for group in found]

    async def consumer_lags(
        self, broker: BrokerRoute, group: str, topic: str
    ) -> list[offset_service_pb2.ConsumerLag]:
        """The backlog of a group on a broker.

        Raises:
            CallError: The broker refused or did not answer.
        """
        offsets = self._connections.offsets(read_address(broker))

        request = ListConsumerLagsRequest(consumer_group=group, topic=topic)
        return await self._all(broker, offsets.ListConsumerLags, request, lambda p: p.lags)

    async def _all(
        self,
        broker: BrokerRoute,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        entries: Callable[[Any], Iterable[Entry]],
    ) -> list[Entry]:
        """All entries of a list of a broker.

        Raises:
            CallError: The broker refused or did not answer.
        """

        async def ask(page: Any) -> Any:
            return await answer_of(method(page, timeout=self._timeout_s), peer_name(broker))

        return await all_pages(ask, request, entries)


def peer_name(broker: BrokerRoute) -> str:
    """The name of a broker in the text of an error."""
    return f"broker {broker.broker_name} at {broker.read_address}"


def read_addresses(broker: BrokerRoute, *, replicas: bool) -> list[str]:
    """The addresses to read from: the primary's, and perhaps those of its replicas behind it.

    Raises:
        ServiceUnavailable: No live process of it is known.
    """
    first = read_address(broker)
    if not replicas:
        return [first]
    return [broker.addresses[broker_id] for broker_id in sorted(broker.addresses)]


def read_address(broker: BrokerRoute) -> str:
    """The address to read from.

    Raises:
        ServiceUnavailable: No live process of it is known.
    """
    if not broker.read_address:
        raise ServiceUnavailable(
            f"no address of broker {broker.broker_name} is known", retriable=True
        )
    return broker.read_address
