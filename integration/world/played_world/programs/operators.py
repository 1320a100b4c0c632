"""Operators, who change topics, groups, offsets and replicas in the middle of everything.

What they change they change back: whoever comes after one that was killed, and all once the world
is whole again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from grpc.aio import AioRpcError

from ariane.broker.v1.broker_service_pb2 import DisconnectClientRequest, DrainBrokerRequest
from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceStub
from ariane.broker.v1.group_service_pb2 import (
    ConsumerGroupChange,
    DeleteConsumerGroupRequest,
    UpdateConsumerGroupRequest,
)
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.topic_service_pb2 import GetTopicRequest, Topic, UpdateTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.namesrv.v1.route_pb2 import (
    TOPIC_PERMISSION_READ,
    TOPIC_PERMISSION_READ_WRITE,
)
from ariane.replication.v1.replica_set_service_pb2 import (
    ElectPrimaryRequest,
    RemoveReplicaRequest,
    TransferPrimaryRequest,
)
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_sdk import ClusterClient, LiveBroker
from ariane_sdk.errors import ArianeError
from played_world.history import Moved, Place, Told

if TYPE_CHECKING:
    from random import Random

    from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceAsyncStub
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.programs.stage import Stage

PAUSE_S: Final = (0.5, 5.0)
"""Between one change and the next."""

HELD_S: Final = (0.5, 3.0, 10.0)
"""How long what holds others up stays."""

ONLY: Final[set[str]] = set()
"""What operators do, for who looks for something: by the names of ``_Changes``; all if empty."""

ASIDE: Final = frozenset({"restore", "spread", "offsets", "lag"})
"""What operators do beside the acts that are drawn."""

ACTS: Final = (2, 6)
"""How many different acts there are in a world; few acts come often, and close together."""

ALL_ACTS: Final = 0.3
"""How often there are all."""

QUEUES_MAX: Final = 6

HURRIES: Final = 0.5
"""How often a queue is taken away in one step."""

HURRY_TRIES: Final = 20
HURRY_S: Final = 0.25
"""How often that is tried, and the time between two tries: it is refused where messages are unread.
"""

SPREAD: Final = 0.7
"""How often topics are at all brokers from the beginning; else producers make them somewhere."""

BROKERS_START_S: Final = 0.5

CALL_S: Final = 3.0
TRANSFER_S: Final = 12.0
PRIMARY: Final = 0

DELETED_TOPIC: Final = "brief"
"""A topic that is deleted now and then, and made anew by its producers."""


def operator(stage: Stage, *, is_set: bool) -> Program:
    """Somebody who changes what can be changed, until the world is whole again."""

    async def run(process: Process) -> None:
        client = ClusterClient(
            stage.name_servers, clock=process.machine.clock, random=process.chance
        )
        async with client as cluster:
            work = _Changes(stage, process.chance, cluster)
            acts = work.all_acts(is_set=is_set)
            await work.restore()
            if process.chance.random() < SPREAD:
                await asyncio.sleep(BROKERS_START_S)
                await work.attempt("spread", work.spread)
            while stage.is_disturbed:
                await asyncio.sleep(process.chance.uniform(*PAUSE_S))
                act = process.chance.choice(acts)
                await work.attempt(act.__name__, act)
                if not is_set:  # Another primary may know earlier ones.
                    await work.attempt("offsets", work.look_at_offsets)
            await work.restore()
            while not stage.is_settled:  # noqa: ASYNC110 - nobody tells it.
                await asyncio.sleep(1.0)
            while stage.history.lags != {}:
                await work.attempt("lag", work.look_at_lags)
                await asyncio.sleep(1.0)

    return run


class _Changes:
    """What an operator does."""

    def __init__(self, stage: Stage, chance: Random, cluster: ClusterClient) -> None:
        self._stage = stage
        self._chance = chance
        self._cluster = cluster

    def all_acts(self, *, is_set: bool) -> list[Callable[[], Awaitable[None]]]:
        """What may be done in a world."""
        acts: list[Callable[[], Awaitable[None]]] = [
            self.create,
            self.grow,
            self.shrink,
            self.make_read_only,
            self.reset,
            self.pause_group,
            self.delete_group,
            self.drain,
            self.disconnect,
            self.delete_topic,
        ]
        if is_set:
            acts += [self.transfer, self.transfer, self.elect, self.remove]
        if ONLY:
            return [act for act in acts if act.__name__ in ONLY]
        chance = self._stage.world.timeline.chance("acts")
        if chance.random() < ALL_ACTS:
            return acts
        return chance.sample(acts, k=chance.randint(*ACTS))

    async def attempt(self, name: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Do something; return whether it was done."""
        note = self._stage.world.timeline.note
        note(f"operator begins {name}")
        try:
            await act()
        except (ArianeError, AioRpcError) as error:
            note(f"operator has not done {name}: {error!r:.160}")
            return False
        note(f"operator has done {name}")
        if name not in ASIDE:
            self._stage.happens("acted")
        self._stage.history.changes[name] += 1
        return True

    async def restore(self) -> None:
        """Let nothing stand still that an operator has stopped."""
        while not await self.attempt("restore", self._restore):  # noqa: ASYNC110 - asks again.
            await asyncio.sleep(1.0)

    async def _restore(self) -> None:
        for broker in await self._primaries(all_of_them=not self._stage.is_disturbed):
            await self._set_draining(broker, draining=False)
            for group in self._stage.history.groups:
                await self._set_consuming(broker, group, enabled=True)
            for topic in self._stage.topics:
                with suppress(AioRpcError):
                    await self._permit(broker, topic, writing=True)

    async def look_at_offsets(self) -> None:
        """Ask for the consumer offsets of all groups."""
        for group in self._stage.history.groups:
            await self._look_at_offsets(group)

    async def _look_at_offsets(self, group: str) -> None:
        history, roles = self._stage.history, self._stage.of_kind("broker")
        before = {role.name: role.process for role in roles}
        for lag in await self._cluster.consumer_lag(group):
            topic, broker, queue_id = lag.message_queue
            process = self._stage.roles[broker].process
            # Else it is not known which of both has told it.
            if process is not None and process is before[broker]:
                told_s, queue = self._stage.world.timeline.now, (topic, broker, queue_id)
                told = Told(told_s, group, queue, lag.consumer_offset, process.process_id)
                history.offsets.append(told)

    async def look_at_lags(self) -> None:
        """Ask what groups have left."""
        lags: dict[str, int] = {}
        for group in self._stage.history.groups:
            for lag in await self._cluster.consumer_lag(group):
                # A group that came after a queue was closed lacks all of it.
                came_late = lag.unread and not lag.consumer_offset
                if lag.message_count and not came_late:
                    lags[f"{group} in {lag.message_queue}"] = lag.message_count
        self._stage.history.lags = lags

    # Who is asked.

    async def _primaries(self, *, all_of_them: bool = False) -> list[LiveBroker]:
        brokers = await self._cluster.list_brokers()
        primaries = [each for each in brokers if each.broker_id == PRIMARY]
        if all_of_them and len(primaries) < self._stage.primary_count:
            raise ArianeError("some broker is away")
        return primaries

    async def _one(self) -> LiveBroker:
        primaries = await self._primaries()
        if not primaries:
            raise ArianeError("no broker is there")
        broker = self._chance.choice(primaries)
        self._stage.happens("acts", broker.broker_name)
        return broker

    def _hold_s(self) -> float:
        return self._chance.choice(HELD_S)

    # Topics.

    async def spread(self) -> None:
        """Create topics wherever they are not."""
        for topic in self._stage.topics:
            count = self._chance.choice((1, 2, 4))
            await self._cluster.create_topic(topic, queue_count=count, exists_ok=True)

    async def create(self) -> None:
        """Create a topic wherever it is not."""
        topic = self._chance.choice([*self._stage.topics, DELETED_TOPIC])
        self._stage.happens("acts")
        await self._cluster.create_topic(topic, queue_count=2, exists_ok=True)

    async def _change_queues(
        self, topic: str, change: Callable[[Topic], UpdateTopicRequest]
    ) -> None:
        broker = await self._one()
        stub = TopicServiceStub(self._cluster.channel(broker.address))
        known = (await stub.GetTopic(GetTopicRequest(topic=topic), timeout=CALL_S)).topic
        request = change(known)
        self._stage.world.timeline.note(f"operator {broker.broker_name} {request!s:.100}")
        await stub.UpdateTopic(request, timeout=CALL_S)

    async def grow(self) -> None:
        """Give a topic another queue at one broker."""
        topic = self._chance.choice(self._stage.topics)

        def more(known: Topic) -> UpdateTopicRequest:
            count = min(QUEUES_MAX, known.read_queue_count + 1)
            return UpdateTopicRequest(topic=topic, read_queue_count=count, write_queue_count=count)

        await self._change_queues(topic, more)

    async def shrink(self) -> None:
        """Take a queue from a topic at one broker: no longer written, and then no longer read.

        Who is in a hurry does both at once, as soon as nothing in it is unread.
        """
        topic = self._chance.choice(self._stage.topics)

        def write_less(known: Topic) -> UpdateTopicRequest:
            count = max(1, known.write_queue_count - 1)
            return UpdateTopicRequest(topic=topic, write_queue_count=count)

        def read_less(known: Topic) -> UpdateTopicRequest:
            return UpdateTopicRequest(topic=topic, read_queue_count=known.write_queue_count)

        def less(known: Topic) -> UpdateTopicRequest:
            count = max(1, known.write_queue_count - 1)
            return UpdateTopicRequest(topic=topic, read_queue_count=count, write_queue_count=count)

        if self._chance.random() < HURRIES:
            for _ in range(HURRY_TRIES):
                with suppress(AioRpcError):
                    await self._change_queues(topic, less)
                    return
                await asyncio.sleep(HURRY_S)
            return
        await self._change_queues(topic, write_less)
        await asyncio.sleep(self._hold_s())
        await self._change_queues(topic, read_less)

    async def make_read_only(self) -> None:
        """Let nobody write a topic at one broker for a while."""
        topic = self._chance.choice(self._stage.topics)
        broker = await self._one()
        await self._permit(broker, topic, writing=False)
        await asyncio.sleep(self._hold_s())
        await self.restore()

    async def _permit(self, broker: LiveBroker, topic: str, *, writing: bool) -> None:
        stub = TopicServiceStub(self._cluster.channel(broker.address))
        permission = TOPIC_PERMISSION_READ_WRITE if writing else TOPIC_PERMISSION_READ
        request = UpdateTopicRequest(topic=topic, permission=permission)
        await stub.UpdateTopic(request, timeout=CALL_S)

    async def delete_topic(self) -> None:
        """Delete a topic that its producers will make anew."""
        deletion = self._stage.history.begin_deletion(DELETED_TOPIC, self._stage.world.timeline.now)
        await self._primaries(all_of_them=True)
        self._stage.happens("acts")
        await self._cluster.delete_topic(DELETED_TOPIC)
        await self._primaries(all_of_them=True)
        # Done, and by all: an answer was heard, so that it is not done again later.
        deletion.end_s = self._stage.world.timeline.now

    # Groups.

    async def reset(self) -> None:
        """Let a group go back."""
        group = self._chance.choice(list(self._stage.history.groups))
        topic = self._chance.choice(self._stage.history.groups[group])
        back_s = self._chance.choice((1.0, 5.0, 20.0))
        now_ms = self._stage.now_ms - back_s * 1000
        history, begin_s = self._stage.history, self._stage.world.timeline.now
        history.note_reset(group, begin_s, topic)
        self._stage.happens("acts")
        to = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=now_ms)
        offsets = await self._cluster.reset_offsets(group, topic, to)
        for queue, offset in offsets.items():
            history.moves.append(Moved(begin_s, group, Place(*queue, offset)))

    async def pause_group(self) -> None:
        """Let a group wait at one broker."""
        group = self._chance.choice(list(self._stage.history.groups))
        await self._set_consuming(await self._one(), group, enabled=False)
        await asyncio.sleep(self._hold_s())
        await self.restore()

    async def _set_consuming(self, broker: LiveBroker, group: str, *, enabled: bool) -> None:
        stub = GroupServiceStub(self._cluster.channel(broker.address))
        change = ConsumerGroupChange(consumer_group=group, consume_enabled=enabled)
        request = UpdateConsumerGroupRequest(group=change, allow_missing=True)
        await stub.UpdateConsumerGroup(request, timeout=CALL_S)

    async def delete_group(self) -> None:
        """Delete a group at one broker, if it has no member there now; it begins anew."""
        history = self._stage.history
        group = self._chance.choice(
            [name for name in history.groups if name not in history.begun_s]
        )
        broker = await self._one()
        self._stage.history.note_reset(group, self._stage.world.timeline.now)
        stub = GroupServiceStub(self._cluster.channel(broker.address))
        await stub.DeleteConsumerGroup(
            DeleteConsumerGroupRequest(consumer_group=group), timeout=CALL_S
        )

    async def disconnect(self) -> None:
        """Part a member from a broker."""
        group = self._chance.choice(list(self._stage.history.groups))
        members = await self._cluster.list_members(group)
        if members:
            member = self._chance.choice(members)
            stub = BrokerServiceStub(self._cluster.channel((await self._one()).address))
            request = DisconnectClientRequest(client_id=member.client_id)
            await stub.DisconnectClient(request, timeout=CALL_S)

    # Brokers.

    async def drain(self) -> None:
        """Let a broker take nothing for a while."""
        broker = await self._one()
        await self._set_draining(broker, draining=True)
        await asyncio.sleep(self._hold_s())
        await self.restore()

    async def _set_draining(self, broker: LiveBroker, *, draining: bool) -> None:
        stub = BrokerServiceStub(self._cluster.channel(broker.address))
        await stub.DrainBroker(DrainBrokerRequest(draining=draining), timeout=CALL_S)

    async def _set_service(self) -> ReplicaSetServiceAsyncStub:
        return ReplicaSetServiceStub(self._cluster.channel((await self._one()).address))

    def _id(self) -> int:
        return self._chance.randrange(len(self._stage.of_kind("broker")))

    async def transfer(self) -> None:
        """Hand the role of the primary to a replica."""
        stub = await self._set_service()
        request = TransferPrimaryRequest(target_broker_id=self._id())
        await stub.TransferPrimary(request, timeout=TRANSFER_S)

    async def elect(self) -> None:
        """Order that a replica in sync be elected."""
        stub = await self._set_service()
        await stub.ElectPrimary(ElectPrimaryRequest(broker_id=self._id()), timeout=CALL_S)

    async def remove(self) -> None:
        """Take a replica out of its set; it comes back by itself, if it lives."""
        stub = await self._set_service()
        await stub.RemoveReplica(RemoveReplicaRequest(broker_id=self._id()), timeout=CALL_S)
