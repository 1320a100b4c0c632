"""The client for questions and changes to a cluster: topics, brokers, routes, backlogs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ariane.broker.v1.group_service_pb2 import ConsumerGroupChange, UpdateConsumerGroupRequest
from ariane_record.names import is_system_group, is_system_topic, reply_topic
from ariane_sdk.checks.limits import checked_group, checked_topic
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.stateless_client import StatelessClient
from ariane_sdk.cluster.conflicts import SubscriptionConflict, conflicts_at
from ariane_sdk.cluster.group_report import (
    GroupMember,
    MembersByGroup,
    QueueLag,
    group_member_of,
    note_members,
    queue_lag_of,
)
from ariane_sdk.cluster.offset_resets import OffsetResets, ResetTarget
from ariane_sdk.cluster.primaries import PresentPrimaries
from ariane_sdk.cluster.queue_order import QueueOrders
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
"""The number of queues of a new topic on each broker."""


class ClusterClient(StatelessClient):
    """Shows and changes the topics, groups, offsets and sinks of a cluster.

    Example::

        async with ClusterClient("127.0.0.1:9876") as cluster:
            await cluster.create_topic("orders", queue_count=8)
    """

    def channel(self, address: str) -> Channel:
        """The channel to a process, "host:port", for calls that this client does not make itself.

        The channel accepts answers of every size, and is closed with the client.

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
        """Create a topic on every broker. Routes contain it when this returns.

        Args:
            topic: Its name.
            queue_count: Queues on each broker.
            exists_ok: Whether brokers that have the topic already are left unchanged.
            fifo: Whether every message belongs to a message group and stays in order there, also
                while brokers come and go: sends to a broker that is away wait for it.

        Raises:
            NameIllegal: The name is not legal for a topic.
            TopicExists: A broker has it already; others may have created it.
            ServiceUnavailable: There is no broker.
            CallError: A broker did not create it; others may have.
        """
        topic = checked_topic(topic)
        changes = await self._topic_changes()
        await changes.create(topic, queue_count, exists_ok=exists_ok, fifo=fifo)
        # An existing order is kept: a broker may only be unreachable for a while.
        if fifo and not (await self.route(topic)).queue_order:
            await self.keep_queue_order(topic)

    @asynccontextmanager
    async def queue_order_first(self, topic: str, counts: Mapping[str, int]) -> AsyncIterator[None]:
        """Fix the order of queues of a topic that the block creates; not of an existing one.

        If name servers cannot keep an order, this fails before the block runs.

        Args:
            topic: The topic.
            counts: The number of queues that each broker will get.

        Raises:
            CallError: A name server did not store the order; the block was not run.
        """
        async with (await self._topic_changes()).queue_order_first(topic, counts):
            yield

    async def keep_queue_order(self, topic: str) -> Route:
        """Fix the queues among which the message groups of a topic are divided: all it has now.

        ``create_topic(fifo=True)`` does this by itself. Call it when a topic got more queues or
        brokers, while no producer sends to it: message groups then move to other queues.

        Raises:
            RouteNotFound: No live broker has the topic.
            CallError: A name server did not store the order; others may have.
        """
        route = await self.route(topic)
        counts = {broker.broker_name: broker.write_queue_count for broker in route.brokers}
        await self._queue_orders().put(topic, counts)
        return await self.route(topic)

    async def forget_queue_order(self, topic: str) -> None:
        """Delete the order of queues of a topic. Harmless without one.

        Afterwards a topic of type FIFO accepts no message groups. The message groups of other
        topics are divided among the live queues, and move whenever a broker starts or stops.

        Raises:
            CallError: A name server did not delete the order; others may have.
        """
        await self._queue_orders().delete(checked_topic(topic))

    def _queue_orders(self) -> QueueOrders:
        return QueueOrders(self._session.connections, self._addresses, self._call_timeout_s)

    async def delete_topic(self, topic: str, *, missing_ok: bool = False) -> None:
        """Delete a topic with its messages and offsets, on every broker.

        Args:
            topic: Its name.
            missing_ok: Whether a topic that no broker has is no error.

        Raises:
            TopicNotFound: No broker has it.
            RouteNotFound: A broker that has it is away; all others have deleted it.
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
            include_system: Whether to include the system's own topics, such as the reply topic of
                each live cluster.

        Raises:
            NameServersUnreachable: No name server answered.
        """
        topics = await self._session.name_servers.list_topics()
        if include_system:
            return topics
        replies = {reply_topic(broker.cluster_name) for broker in await self.list_brokers()}
        return [topic for topic in topics if not is_system_topic(topic) and topic not in replies]

    async def list_brokers(self) -> list[LiveBroker]:
        """All live brokers, by cluster, name and id.

        Raises:
            NameServersUnreachable: No name server answered.
        """
        return [live_broker_of(b) for b in await self._session.name_servers.list_brokers()]

    async def _primaries(self) -> list[LiveBroker]:
        return [each for each in await self.list_brokers() if each.broker_id == PRIMARY_ID]

    async def route(self, topic: str) -> Route:
        """The present route of a topic from a name server: its brokers and queues.

        Raises:
            RouteNotFound: No live broker has it.
            NameServersUnreachable: No name server answered.
        """
        return await self._session.name_servers.get_route(topic)

    async def list_groups(
        self, *, include_system: bool = False, broker_names: Collection[str] = ()
    ) -> list[str]:
        """All consumer groups by name.

        Args:
            include_system: Whether to include the system's own groups, such as the ones that
                every store of a Java broker has.
            broker_names: Ask only these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        groups: set[str] = set()
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            groups.update(await calls.consumer_groups(route_to(broker)))

        await self._of_every_primary(ask, broker_names)
        return sorted(name for name in groups if include_system or not is_system_group(name))

    async def set_receive_in_order(self, group: str, *, in_order: bool) -> None:
        """Set whether receiving members of a group get the messages of a message group in order.

        This changes every broker; brokers that do not know the group create it.

        Args:
            group: The group.
            in_order: Whether the next message of a message group waits until the one before is
                settled.

        Raises:
            NameIllegal: The name is not legal for a group.
            ServiceUnavailable: There is no broker.
            CallError: A broker did not change it; others may have.
        """
        change = ConsumerGroupChange(consumer_group=checked_group(group), receive_in_order=in_order)
        request = UpdateConsumerGroupRequest(group=change, allow_missing=True)
        groups = self._session.connections.groups

        async def update(broker: LiveBroker) -> None:
            await answer_of(
                groups(broker.address).UpdateConsumerGroup(request, timeout=self._call_timeout_s),
                f"broker {broker.broker_name} at {broker.address}",
            )

        await self._of_every_primary(update, reads=False)

    async def list_members(
        self, group: str, *, broker_names: Collection[str] = ()
    ) -> list[GroupMember]:
        """The live members of a consumer group, by client id.

        Args:
            group: The group.
            broker_names: Ask only these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        checked_group(group, system=True)
        members: dict[str, GroupMember] = {}
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            for member in await calls.group_members(route_to(broker), group):
                one, known = group_member_of(member), members.get(member.client_id)
                if known is not None:
                    # Each broker knows what is held of its own queues.
                    holds = {(it.message_queue, it.reason): it for it in known.holds + one.holds}
                    one = replace(one, holds=tuple(holds.values()))
                members[member.client_id] = one

        await self._of_every_primary(ask, broker_names)
        return [members[client_id] for client_id in sorted(members)]

    async def queue_owners(
        self, group: str, *, broker_names: Collection[str] = ()
    ) -> dict[MessageQueue, str]:
        """The member of a group that owns each queue, from the answers of the members.

        A queue is missing if no member owns it, or its owner does not answer.

        Args:
            group: The group.
            broker_names: Only members that are attached to these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A broker did not return the members.
        """
        checked_group(group, system=True)
        owners = QueueOwners(self._session.calls, group)
        await self._of_every_primary(owners.ask, broker_names)
        return owners.found

    async def members_of_groups(self, *, broker_names: Collection[str] = ()) -> MembersByGroup:
        """The live members of all consumer groups, by group: how each gets messages, by client id.

        Args:
            broker_names: Ask only these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        members: MembersByGroup = {}
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            for client in await calls.attached_clients(route_to(broker)):
                note_members(members, client.hello)

        await self._of_every_primary(ask, broker_names)
        return members

    async def consumer_lag(
        self, group: str = "", topic: str = "", *, broker_names: Collection[str] = ()
    ) -> list[QueueLag]:
        """The backlog of a group or of all, by group, topic, broker and queue.

        Args:
            group: The group; all if empty.
            topic: Only this topic; all if empty.
            broker_names: Ask only these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        if group:
            checked_group(group, system=True)
        lags: list[QueueLag] = []
        calls = self._session.calls

        async def ask(broker: LiveBroker) -> None:
            found = await calls.consumer_lags(route_to(broker), group, topic)
            lags.extend(queue_lag_of(lag, broker.broker_name) for lag in found)

        await self._of_every_primary(ask, broker_names)
        return sorted(lags, key=lambda lag: (lag.group, lag.message_queue))

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: ResetTarget,
        *,
        skip: bool = False,
        validate_only: bool = False,
    ) -> dict[MessageQueue, int]:
        """Reset a group's offsets in a topic, whether its members are online or not.

        Brokers notify the members, which drop their messages and continue from the new offsets;
        the offsets of messages in work are no longer stored.

        Args:
            group: The group.
            topic: The topic.
            to: "earliest", "latest", the first message stored at or after a time, or a table of
                queue offsets; queues that a table does not name stay as they are.
            skip: Whether a time also moves queues forward over messages that are not consumed;
                otherwise such queues stay.
            validate_only: Whether only to return the offsets without changing them.

        Returns:
            The offsets as they are, or would be, now; without queues that stay.

        Raises:
            IllegalArgument: The target is not legal.
            RouteNotFound: No live broker has the topic.
            GroupNotFound: No broker of the topic knows the group.
            QueueOffsetOutOfRange: An offset of a table is outside its queue.
            CallError: A call to a broker failed; others may have done it.
        """
        resets = await self._resets(topic)
        return await resets.reset(checked_group(group), to, skip=skip, validate_only=validate_only)

    async def clone_offsets(
        self, group: str, target_group: str, topic: str
    ) -> dict[MessageQueue, int]:
        """Copy a group's offsets in a topic to another group, which is created where it is missing.

        For members of the target group this is a reset: they continue from the new offsets.

        Returns:
            The copied offsets.

        Raises:
            IllegalArgument: A name is not legal, or both are the same.
            RouteNotFound: No live broker has the topic.
            GroupNotFound: No broker of the topic knows the group.
            CallError: A call to a broker failed; others may have done it.
        """
        if checked_group(group) == checked_group(target_group):
            raise IllegalArgument(f"group {group!r} has its own offsets already")
        resets = await self._resets(topic)
        return await resets.clone(group, target_group)

    async def subscription_conflicts(
        self, group: str = "", *, broker_names: Collection[str] = ()
    ) -> list[SubscriptionConflict]:
        """Members with conflicting subscriptions: present ones, and ones refused in the last hour.

        Args:
            group: Only this group; all if empty.
            broker_names: Ask only these brokers; all if empty.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        found: list[SubscriptionConflict] = []
        connections, timeout_s = self._session.connections, self._call_timeout_s

        async def ask(broker: LiveBroker) -> None:
            name, address = broker.broker_name, broker.address
            found.extend(await conflicts_at(connections, name, address, group, timeout_s=timeout_s))

        await self._of_every_primary(ask, broker_names)
        return sorted(found, key=lambda c: (c.group, c.broker_name, c.newcomer.client_id))

    async def list_sinks(
        self, name: str = "", *, leave_out: Callable[[str, CallError], None] | None = None
    ) -> list[SinkReport]:
        """The sinks of exactly-once writes that brokers know, by name.

        Brokers drop a sink that sent no request for 90 days.

        Args:
            name: Only this one; all if empty.
            leave_out: Called with the name and the error of each broker that does not answer, whose
                part is then missing. Without it, such a broker is an error.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: A call to a broker failed.
        """
        return await (await self._sinks()).reports(name, leave_out)

    async def move_sink(
        self,
        name: str,
        broker_name: str,
        *,
        home_is_gone: bool = False,
        committed_batch: int | None = None,
        topic: str | None = None,
    ) -> SinkMoved:
        """Have the sink of an exactly-once write write to another broker from its next batch on.

        The old broker accepts no more batches of the sink and returns the committed ones, so that
        the new one recognises a repeated batch. Staged records are dropped: Spark repeats them.

        Args:
            name: The name of the sink.
            broker_name: The new broker, which must have queues of the sink's topic.
            home_is_gone: Move it although the old broker does not answer, or nobody who answers
                knows it. What only a broker that comes back had committed may be there twice.
            committed_batch: The last batch known to be committed; it is not written again.
            topic: Its topic, empty if its rows name topics; required if nobody knows the sink.

        Raises:
            SinkNotFound: No broker knows its present broker, and that is not said to be gone.
            IllegalArgument: It writes there already; the topic is missing, another, or not there.
            CallError: A broker is not reachable, or did not do it; do it again.
        """
        return await (await self._sinks()).move(
            name,
            broker_name,
            self.route,
            home_is_gone=home_is_gone,
            committed_batch=committed_batch,
            topic=topic,
        )

    async def delete_sink(self, name: str) -> SinkDeleted:
        """Delete the sink of an exactly-once write on all brokers, with its staged records.

        Committed records stay. If it is written to again, its first batch counts as new.

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

    async def _of_every_primary(
        self,
        act: Callable[[LiveBroker], Awaitable[None]],
        names: Collection[str] = (),
        *,
        reads: bool = True,
    ) -> None:
        """Call every primary; where a broker changes its primary, the next one."""
        present = PresentPrimaries(self.list_brokers, self._session.failover, self._patience_s)
        await present.call(act, names, reads=reads)
