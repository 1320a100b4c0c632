"""The cluster as applications and tools see it: topics, brokers, routes, backlogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ariane.broker.v1.group_service_pb2 import ConsumerGroupChange, UpdateConsumerGroupRequest
from ariane_record.names import is_system_group, is_system_topic, reply_topic
from ariane_sdk.checks.limits import checked_group, checked_topic
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.conflicts import SubscriptionConflict, conflicts_at
from ariane_sdk.client.queue_order import QueueOrders
from ariane_sdk.client.stateless_client import StatelessClient
from ariane_sdk.cluster.group_report import GroupMember, QueueLag, group_member_of, queue_lag_of
from ariane_sdk.cluster.offset_resets import OffsetResets, ResetTarget
from ariane_sdk.cluster.primaries import at_every_primary
from ariane_sdk.cluster.queue_owners import QueueOwners
from ariane_sdk.cluster.sinks import SinkCalls, SinkDeleted, SinkMoved, SinkReport
from ariane_sdk.cluster.topic_changes import TopicChanges
from ariane_sdk.errors import CallError, IllegalArgument
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.live_broker import LiveBroker, live_broker_of, route_to
from ariane_sdk.routing.route import PRIMARY_ID, Route

if TYPE_CHECKING:
    from grpc.aio import Channel

QUEUE_COUNT_DEFAULT: Final = 4
"""Queues of a topic on each broker."""


class ClusterClient(StatelessClient):
    """Asks and changes what a cluster has.

    Example::

        async with ClusterClient("127.0.0.1:9876") as cluster:
            await cluster.create_topic("orders", queue_count=8)
    """

    def channel(self, address: str) -> Channel:
        """The channel to a process, "host:port", for calls that this client does not make itself.

        It takes answers of every size, and is closed with the client.

        Raises:
            ClientNotRunning: The client is not running.
        """
        return self._session.connections.channel(address)

    async def create_topic(
        self,
        topic: str,
        *,
        queue_count: int = QUEUE_COUNT_DEFAULT,
        exists_ok: bool = False,
        fifo: bool = False,
    ) -> None:
        """Create a topic on every broker. It stands in the routes when this returns.

        Args:
            topic: Its name.
            queue_count: Queues on each broker.
            exists_ok: Whether brokers that have it already are left as they are.
            fifo: Whether every message belongs to a message group and stays in order there, also
                while brokers come and go: sends to a broker that is away wait for it.

        Raises:
            NameIllegal: No name for a topic.
            TopicExists: A broker has it already; others may have it now as well.
            ServiceUnavailable: There is no broker.
            CallError: A broker did not create it; others may have.
        """
        topic = checked_topic(topic)
        changes = await self._topic_changes()
        await changes.create(topic, queue_count, exists_ok=exists_ok, fifo=fifo)
        # An order that stands is not drawn anew: a broker may just be away.
        if fifo and not (await self.route(topic)).queue_order:
            await self.keep_queue_order(topic)

    @asynccontextmanager
    async def queue_order_first(self, topic: str, counts: Mapping[str, int]) -> AsyncIterator[None]:
        """Fix the order of queues of a topic that the block makes; not of one that is there.

        Name servers that keep no order say so before anything is made.

        Args:
            topic: The topic.
            counts: The queues that each broker is about to get.

        Raises:
            CallError: A name server did not take it; the block was not run.
        """
        async with (await self._topic_changes()).queue_order_first(topic, counts):
            yield

    async def keep_queue_order(self, topic: str) -> Route:
        """Fix among which queues the message groups of a topic are divided: all it has now.

        ``create_topic(fifo=True)`` does it by itself. Do it again when a topic got more queues or
        brokers, at a moment when nobody sends: groups move then.

        Raises:
            RouteNotFound: No live broker carries the topic.
            CallError: A name server did not take it; others may have.
        """
        route = await self.route(topic)
        counts = {broker.broker_name: broker.write_queue_count for broker in route.brokers}
        await self._queue_orders().put(topic, counts)
        return await self.route(topic)

    async def forget_queue_order(self, topic: str) -> None:
        """Forget the order of queues of a topic. Harmless when there is none.

        A topic of type FIFO takes no message groups then. Those of others are divided among the
        queues that live, and move whenever a broker comes or goes.

        Raises:
            CallError: A name server did not forget it; others may have.
        """
        await self._queue_orders().delete(checked_topic(topic))

    def _queue_orders(self) -> QueueOrders:
        return QueueOrders(self._session.connections, self._addresses, self._call_timeout_s)

    async def delete_topic(self, topic: str, *, missing_ok: bool = False) -> None:
        """Delete a topic with its messages and offsets, on every broker.

        Args:
            topic: Its name.
            missing_ok: Whether it is well that no broker has it.

        Raises:
            TopicNotFound: No broker has it.
            CallError: A broker did not delete it; others may have.
        """
        await (await self._topic_changes()).delete(topic, missing_ok=missing_ok)

    async def _topic_changes(self) -> TopicChanges:
        connections, timeout_s = self._session.connections, self._call_timeout_s
        primaries = await self._primaries()
        return TopicChanges(
            connections, primaries, self._queue_orders(), self.route, timeout_s=timeout_s
        )

    async def list_topics(self, *, include_system: bool = False) -> list[str]:
        """All topics by name.

        Args:
            include_system: Whether to list those that the system made for itself too; the topic of
                replies of each cluster that lives is one of them.

        Raises:
            NameServersUnreachable: None answered.
        """
        topics = await self._session.name_servers.list_topics()
        if include_system:
            return topics
        replies = {reply_topic(broker.cluster_name) for broker in await self.list_brokers()}
        return [topic for topic in topics if not is_system_topic(topic) and topic not in replies]

    async def list_brokers(self) -> list[LiveBroker]:
        """All live brokers, by cluster, name and id.

        Raises:
            NameServersUnreachable: None answered.
        """
        return [live_broker_of(b) for b in await self._session.name_servers.list_brokers()]

    async def _primaries(self) -> list[LiveBroker]:
        return [each for each in await self.list_brokers() if each.broker_id == PRIMARY_ID]

    async def route(self, topic: str) -> Route:
        """Where a topic's queues are, as a name server tells it now.

        Raises:
            RouteNotFound: No live broker carries it.
            NameServersUnreachable: None answered.
        """
        return await self._session.name_servers.get_route(topic)

    async def list_groups(
        self, *, include_system: bool = False, broker_names: Collection[str] = ()
    ) -> list[str]:
        """All consumer groups by name.

        Args:
            include_system: Whether to list those that the system has for itself too, such as the
                ones that every store of a Java broker names.
            broker_names: Only what these brokers tell; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        groups: set[str] = set()
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            groups.update(await calls.consumer_groups(route_to(broker)))

        await self._at_every_primary(ask, broker_names)
        return sorted(name for name in groups if include_system or not is_system_group(name))

    async def set_receive_in_order(self, group: str, *, in_order: bool) -> None:
        """Say whether receiving members of a group get the messages of a message group in order.

        Holds on every broker; those that do not know the group get it.

        Args:
            group: The group.
            in_order: Whether the next message of a message group waits until the one before is
                settled.

        Raises:
            NameIllegal: No name for a group.
            ServiceUnavailable: There is no broker.
            CallError: A broker did not take it; others may have.
        """
        change = ConsumerGroupChange(consumer_group=checked_group(group), receive_in_order=in_order)
        request = UpdateConsumerGroupRequest(group=change, allow_missing=True)
        groups = self._session.connections.groups

        async def update(broker: LiveBroker) -> None:
            await answer_of(
                groups(broker.address).UpdateConsumerGroup(request, timeout=self._call_timeout_s),
                f"broker {broker.broker_name} at {broker.address}",
            )

        await self._at_every_primary(update)

    async def list_members(
        self, group: str, *, broker_names: Collection[str] = ()
    ) -> list[GroupMember]:
        """The live members of a consumer group, by client id.

        Args:
            group: The group.
            broker_names: Only what these brokers tell; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        checked_group(group, system=True)
        members: dict[str, GroupMember] = {}
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            for member in await calls.group_members(route_to(broker), group):
                members[member.client_id] = group_member_of(member)

        await self._at_every_primary(ask, broker_names)
        return [members[client_id] for client_id in sorted(members)]

    async def queue_owners(
        self, group: str, *, broker_names: Collection[str] = ()
    ) -> dict[MessageQueue, str]:
        """Which member of a group has each queue in work, as the members say themselves.

        Queues that no member names are left out: nobody has them, or who has does not answer.

        Args:
            group: The group.
            broker_names: Only members that are attached to these brokers; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell who the members are.
        """
        checked_group(group, system=True)
        owners = QueueOwners(self._session.calls, group)
        await self._at_every_primary(owners.ask, broker_names)
        return owners.found

    async def members_of_groups(self, *, broker_names: Collection[str] = ()) -> dict[str, set[str]]:
        """The client ids of the live members of every consumer group that has some, by group.

        Args:
            broker_names: Only what these brokers tell; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        members: dict[str, set[str]] = defaultdict(set)
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            for client in await calls.attached_clients(route_to(broker)):
                for membership in client.hello.memberships:
                    members[membership.consumer_group].add(client.hello.client_id)

        await self._at_every_primary(ask, broker_names)
        return dict(members)

    async def consumer_lag(
        self, group: str = "", topic: str = "", *, broker_names: Collection[str] = ()
    ) -> list[QueueLag]:
        """How far a group is behind, or each, by group, topic, broker and queue.

        Args:
            group: The group; all if empty.
            topic: Only this topic; all if empty.
            broker_names: Only what these brokers tell; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        if group:
            checked_group(group, system=True)
        lags: list[QueueLag] = []
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            found = await calls.consumer_lags(route_to(broker), group, topic)
            lags.extend(queue_lag_of(lag, broker.broker_name) for lag in found)

        await self._at_every_primary(ask, broker_names)
        return sorted(lags, key=lambda lag: (lag.group, lag.message_queue))

    async def reset_offsets(
        self, group: str, topic: str, to: ResetTarget, *, validate_only: bool = False
    ) -> dict[MessageQueue, int]:
        """Set a group's offsets in a topic anew, whether its members are online or not.

        Members are told, drop what they hold, and go on from there; what they had in work is
        not stored any longer.

        Args:
            group: The group.
            topic: The topic.
            to: "earliest", "latest", the first message stored at or after a time, or a table of
                queue offsets; queues that a table does not name stay as they are.
            validate_only: Whether only to tell what the offsets would be.

        Returns:
            The offsets as they are, or would be, now.

        Raises:
            IllegalArgument: The target is none.
            RouteNotFound: No live broker carries the topic.
            GroupNotFound: No broker of the topic knows the group.
            QueueOffsetOutOfRange: A table names an offset that is not kept.
            CallError: A broker refused; others may have done it.
        """
        resets = await self._resets(topic)
        return await resets.reset(checked_group(group), to, validate_only=validate_only)

    async def clone_offsets(
        self, group: str, target_group: str, topic: str
    ) -> dict[MessageQueue, int]:
        """Copy a group's offsets in a topic to another group, which is made where it is missing.

        To members of the target group it is a reset: they are told, and go on from there.

        Returns:
            The copied offsets.

        Raises:
            IllegalArgument: A name is none, or both are the same.
            RouteNotFound: No live broker carries the topic.
            GroupNotFound: No broker of the topic knows the group.
            CallError: A broker refused; others may have done it.
        """
        if checked_group(group) == checked_group(target_group):
            raise IllegalArgument(f"group {group!r} has its own offsets already")
        resets = await self._resets(topic)
        return await resets.clone(group, target_group)

    async def subscription_conflicts(
        self, group: str = "", *, broker_names: Collection[str] = ()
    ) -> list[SubscriptionConflict]:
        """Members that do not want the same: those let in now, and those refused in the last hour.

        Args:
            group: Only this group; all if empty.
            broker_names: Only what these brokers tell; all if empty.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        found: list[SubscriptionConflict] = []
        connections, timeout_s = self._session.connections, self._call_timeout_s

        async def ask(broker: LiveBroker) -> None:
            name, address = broker.broker_name, broker.address
            found.extend(await conflicts_at(connections, name, address, group, timeout_s=timeout_s))

        await self._at_every_primary(ask, broker_names)
        return sorted(found, key=lambda c: (c.group, c.broker_name, c.newcomer.client_id))

    async def list_sinks(
        self, name: str = "", *, leave_out: Callable[[str, CallError], None] | None = None
    ) -> list[SinkReport]:
        """The sinks of exactly-once writes that brokers know, by name.

        Brokers forget one that neither wrote nor asked for 90 days.

        Args:
            name: Only this one; all if empty.
            leave_out: Told the name and the error of each broker that is silent, whose part is then
                missing. Without it, a silent broker is an error.

        Raises:
            NameServersUnreachable: None answered.
            CallError: A broker did not tell.
        """
        return await (await self._sinks()).reports(name, leave_out)

    async def move_sink(
        self,
        name: str,
        broker_name: str,
        *,
        home_is_gone: bool = False,
        committed_batch: int | None = None,
    ) -> SinkMoved:
        """Have the sink of an exactly-once write write to another broker from its next batch on.

        The old broker takes nothing more for it and says what it has committed, so that the new one
        recognises a repeated batch. What is only staged is dropped: Spark repeats the batch.

        Args:
            name: Of the sink.
            broker_name: Where it shall write; it must have queues of the sink's topic.
            home_is_gone: Move it although the old broker does not answer. The batch that Spark
                repeats is written again, and is there twice if the old broker had committed it
                and comes back with its store.
            committed_batch: The last batch known to be committed; it is not written again.

        Raises:
            SinkNotFound: No broker knows where it writes.
            IllegalArgument: It writes there already, or that broker has no queue of the topic.
            ServiceUnavailable: The broker before, or the new one, is away.
            CallError: A broker did not do it; do it again.
        """
        calls = await self._sinks()
        return await calls.move(
            name,
            broker_name,
            self.route,
            home_is_gone=home_is_gone,
            committed_batch=committed_batch,
        )

    async def delete_sink(self, name: str) -> SinkDeleted:
        """Have all brokers forget the sink of an exactly-once write, and drop what it has staged.

        What is committed stays. If it is written to again, its first batch counts as new.

        Raises:
            SinkNotFound: No broker knows it.
            CallError: A broker did not do it; others may have.
        """
        return await (await self._sinks()).delete(name)

    async def _sinks(self) -> SinkCalls:
        brokers = await self._primaries()
        return SinkCalls(self._session.connections, brokers, timeout_s=self._call_timeout_s)

    async def _resets(self, topic: str) -> OffsetResets:
        route = await self.route(checked_topic(topic))
        return OffsetResets(self._session.connections, route, timeout_s=self._call_timeout_s)

    async def _at_every_primary(
        self, act: Callable[[LiveBroker], Awaitable[None]], names: Collection[str] = ()
    ) -> None:
        await at_every_primary(await self._primaries(), act, names)
