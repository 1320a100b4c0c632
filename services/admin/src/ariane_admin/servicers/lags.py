"""``LagService``: backlogs of groups."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane.admin.v1.lag_service_pb2_grpc import LagServiceServicer
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_admin.asking.broker_readings import consumer_lags
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_record.names import is_system_group
from ariane_sdk import LiveBroker, MessageQueue
from ariane_servicekit import Clock

_Context = aio.ServicerContext[Any, Any]

_QUEUES_PAGE = 1000


class LagServicer(LagServiceServicer):
    """Adds up the backlogs that brokers report."""

    def __init__(self, cluster: ClusterAccess, clock: Clock) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        self._clock = clock

    async def ListGroupLags(
        self, request: lag_pb.ListGroupLagsRequest, context: _Context
    ) -> lag_pb.ListGroupLagsResponse:
        """List backlogs by group and topic."""
        answers = await self._cluster.answers()
        client = self._doors.client

        async def at(
            broker: LiveBroker,
        ) -> tuple[list[offset_pb.ConsumerLag], Mapping[str, Collection[str]]]:
            found = await consumer_lags(
                self._doors, broker, group=request.consumer_group, topic=request.topic
            )
            return found, await client.members_of_groups(broker_names=[broker.broker_name])

        sums: dict[tuple[str, str], lag_pb.GroupLag] = {}
        members: dict[str, set[str]] = defaultdict(set)
        for lags, members_of_groups in await answers.ask(at):
            _add_all(sums, lags)
            for name, client_ids in members_of_groups.items():
                members[name].update(client_ids)
        now_ms = self._clock.now_ms()
        for found in sums.values():
            found.member_count = len(members[found.consumer_group])
            if found.HasField("oldest_store_time"):
                age = Duration()
                age.FromMilliseconds(max(0, now_ms - found.oldest_store_time.ToMilliseconds()))
                found.delay.CopyFrom(age)
        wanted = [e for e in sums.values() if e.message_count >= request.message_count_min]
        key = _ORDERS.get(request.order, _by_name)
        page = self._cluster.page(
            sorted(wanted, key=key),
            key,
            request,
            scope=f"lags:{request.consumer_group}:{request.topic}:{request.order}"
            f":{request.message_count_min}",
        )
        return lag_pb.ListGroupLagsResponse(
            lags=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def ListQueueLags(
        self, request: lag_pb.ListQueueLagsRequest, context: _Context
    ) -> lag_pb.ListQueueLagsResponse:
        """List the backlog of one group by queue, with the owner of each queue."""
        answers = await self._cluster.answers()
        group = request.consumer_group

        async def at(broker: LiveBroker) -> list[lag_pb.QueueLag]:
            found = await consumer_lags(self._doors, broker, group=group, topic=request.topic)
            return [lag_pb.QueueLag(broker_name=broker.broker_name, lag=lag) for lag in found]

        lags = [lag for found in await answers.ask(at) for lag in found]

        def key(entry: lag_pb.QueueLag) -> tuple[str, str, int]:
            return entry.lag.topic, entry.broker_name, entry.lag.queue_id

        page = self._cluster.page(
            sorted(lags, key=key),
            key,
            request,
            scope=f"queue-lags:{group}:{request.topic}",
            page_size=_QUEUES_PAGE,
        )
        if page.entries:
            owners = await self._cluster.queue_owners(group, answers)
            for entry in page.entries:
                queue = MessageQueue(entry.lag.topic, entry.broker_name, entry.lag.queue_id)
                entry.client_id = owners.get(queue, "")
        return lag_pb.ListQueueLagsResponse(
            lags=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )


def _by_name(lag: lag_pb.GroupLag) -> tuple[str | int, ...]:
    return lag.consumer_group, lag.topic


def _most_first(lag: lag_pb.GroupLag) -> tuple[str | int, ...]:
    return -lag.message_count, lag.consumer_group, lag.topic


def _longest_first(lag: lag_pb.GroupLag) -> tuple[str | int, ...]:
    return -lag.delay.ToMilliseconds(), lag.consumer_group, lag.topic


_ORDERS: Final = {
    lag_pb.LAG_ORDER_MESSAGE_COUNT: _most_first,
    lag_pb.LAG_ORDER_DELAY: _longest_first,
}


def _add_all(
    sums: dict[tuple[str, str], lag_pb.GroupLag], lags: Sequence[offset_pb.ConsumerLag]
) -> None:
    for lag in lags:
        if not is_system_group(lag.consumer_group):
            _add(sums, lag)


def _add(sums: dict[tuple[str, str], lag_pb.GroupLag], lag: offset_pb.ConsumerLag) -> None:
    found = sums.setdefault(
        (lag.consumer_group, lag.topic),
        lag_pb.GroupLag(consumer_group=lag.consumer_group, topic=lag.topic),
    )
    found.message_count += lag.message_count
    if lag.receiving:
        _add_receiving(found.receiving, lag)
    if lag.HasField("oldest_store_time"):
        oldest = lag.oldest_store_time
        if (
            not found.HasField("oldest_store_time")
            or oldest.ToNanoseconds() < found.oldest_store_time.ToNanoseconds()
        ):
            found.oldest_store_time.CopyFrom(oldest)


def _add_receiving(found: lag_pb.ReceivingCounts, lag: offset_pb.ConsumerLag) -> None:
    found.in_flight_count += lag.in_flight_count
    found.delayed_count += lag.delayed_count
    found.ready_count += lag.message_count - lag.in_flight_count - lag.delayed_count
