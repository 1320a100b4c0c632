"""A consumer group in order, in one process and in virtual time.

Real are the lives of the consumers with their rebalance, their queues, their locks and the work on
each queue. What lies between them and the brokers is played: routes are told late, and records come
without end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from types import SimpleNamespace

from played_brokers import GROUP, Broker, Calls
from virtual_loop import LoopClock

from ariane_sdk import PushSettings, errors
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.client.session import new_client_id
from ariane_sdk.consumer.consumer_life import ConsumerLife
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.ordered_work import OrderedQueueWork
from ariane_sdk.consumer.delivery.queue_work import ListenerParts
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.route import BrokerRoute, Route

TOPIC = "orders"
QUEUES_PER_BROKER = 4
OFFSET_SAVE_S = 5.0
SETTINGS = PushSettings()
RETURNS = SimpleNamespace(new_return_id=lambda: "")


class Routes:
    """What a member knows of where brokers are; it is told late."""

    def __init__(self, world):
        self._world = world
        self._route = world.route()
        self._listeners = []
        self._task = None

    def start(self):
        self._task = asyncio.create_task(self._refresh_now_and_then())

    async def close(self):
        self._task.cancel()

    async def _refresh_now_and_then(self):
        while True:
            await asyncio.sleep(30.0)
            self.look()

    def look(self):
        if self._route != self._world.route():
            self._route = self._world.route()
            for listener in self._listeners:
                listener(self._route)

    def on_change(self, listener):
        self._listeners.append(listener)

    def cached(self, topic):
        return self._route if topic == TOPIC else None

    @property
    def known(self):
        return {TOPIC: self._route}

    def latest_first(self, topics):
        return [self._route] if TOPIC in topics else []

    async def get(self, topic):
        if topic != TOPIC:
            raise errors.RouteNotFound(topic)
        return self._route

    def confirm(self, _topic):
        pass

    def watch(self, _topic):
        pass

    def doubt(self, _topic):
        asyncio.get_running_loop().call_later(self._world.chance.uniform(0.2, 5.0), self.look)


class Pulls:
    """What a ``PullLoop`` is to its consumer: records come in order, without end."""

    def __init__(self, name, connections, plan, *, on_lost, lock_epoch_of, **_):
        self._member, self._client_id = connections, plan.client_id
        self._broker = self._member.world.brokers[name]
        self._on_lost, self._lock_epoch_of = on_lost, lock_epoch_of
        self._works = {}
        self._task = asyncio.create_task(self._run())

    def add(self, work):
        self._works[work.queue] = work

    def remove(self, queue):
        self._works.pop(queue, None)

    def look_again(self):
        pass

    async def close(self):
        self._task.cancel()

    async def _run(self):
        chance = self._member.world.chance
        while True:
            await asyncio.sleep(chance.uniform(0.2, 0.6))
            if not self._broker.up or not self._member.connected:
                continue
            for queue, work in list(self._works.items()):
                refusal = self._broker.refusal(self._client_id, queue, self._lock_epoch_of(queue))
                if refusal is not None:
                    self._on_lost(queue, refusal)
                elif work.wants_records and work.window.message_count < 4:
                    begin = work.window.next_pull_offset
                    messages = [
                        SimpleNamespace(queue_offset=begin + number, size_bytes=100)
                        for number in range(2)
                    ]
                    work.window.put(messages, begin + 2)
                    work.wake()


class Life(ConsumerLife):
    """A member's, which no one closes: the world just ends."""

    def __del__(self):
        """Warn of nothing."""


class Member:
    """One consumer."""

    def __init__(self, world, strategy):
        self.world = world
        self.dead = False
        self.cut_off = False
        self.life = Life(
            ConsumerPlan(
                addresses=(self,),
                client_id=new_client_id(world.chance),
                group=GROUP,
                filters={TOPIC: TagFilter.parse("*")},
                start="earliest",
                model="clustering",
                strategy=strategy,
                settings=SETTINGS,
                clock=world.clock,
                random=world.chance,
                ordered=True,
            )
        )

    @property
    def connected(self):
        return not self.dead and not self.cut_off

    def holds(self, queue):
        return not self.dead and self.life.owned.find(queue) and self.life.locks.holds(queue)

    def session(self):
        routes = Routes(self.world)
        return SimpleNamespace(
            connections=self,
            calls=Calls(self),
            routes=routes,
            failover=Failover(routes, LoopClock()),
            close=_nothing,
        )

    def make_work(self, queue, begin_offset, on_room):
        async def deliver(messages):
            await self.world.delivered(self, queue, messages)

        return OrderedQueueWork(
            queue,
            begin_offset,
            ListenerParts(
                deliver=deliver, batch_size=2, settings=SETTINGS, holding=Holding("group")
            ),
            on_room=on_room,
            returns=RETURNS,
            locks=self.life.locks,
        )

    def disconnect(self, *, dead=False):
        self.dead, self.cut_off = self.dead or dead, True
        for broker in self.world.brokers.values():
            stream = broker.members.get(self.life.plan.client_id)
            if stream is not None:
                stream.end()


class World:
    """Brokers and members, and what must hold between them."""

    def __init__(self, seed, make_strategy, *, brokers=3):
        self.chance = Random(seed)
        self.clock = LoopClock()
        self.loss = 0.0
        self.brokers = {name: Broker(self, name) for name in list("abc")[:brokers]}
        self.known = set(self.brokers)
        self.members = []
        self.newest, self.last_time = {}, {}
        self.faults = []
        self.over = asyncio.Event()
        self._make_strategy = make_strategy

    @property
    def queues(self):
        return self.full_route().read_queues

    def full_route(self):
        return self._route_of(self.brokers)

    def route(self):
        return self._route_of(self.known)

    def _route_of(self, names):
        brokers = (
            BrokerRoute("c", name, {0: name}, QUEUES_PER_BROKER, QUEUES_PER_BROKER)
            for name in sorted(names)
        )
        return Route(TOPIC, tuple(brokers))

    def later(self, act, *arguments):
        # One behind the other, as on a stream: all take the same time.
        asyncio.get_running_loop().call_later(0.02, act, *arguments)

    async def add_member(self):
        member = Member(self, self._make_strategy())
        self.members.append(member)
        with suppress(errors.CallError):
            await member.life.start(member.make_work)
        return member

    def tell_routes(self):
        for member in self.members:
            session = getattr(member.life, "session", None)
            if session is not None:
                delay_s = self.chance.choice((0.5, 2.0, 5.0, 25.0))
                asyncio.get_running_loop().call_later(delay_s, session.routes.look)

    async def save_offsets(self):
        while True:
            await asyncio.sleep(OFFSET_SAVE_S)
            for broker in self.brokers.values():
                broker.saved_offsets = dict(broker.offsets)

    async def delivered(self, member, queue, messages):
        """A listener gets messages."""
        if member.dead:
            await self.over.wait()
        now_s = self.clock.monotonic_s()
        for other in self.members:
            if other is not member and other.holds(queue):
                self.faults.append(f"{now_s:.1f} s: two have {queue}")
        for message in messages:
            newest = self.newest.get(queue, -1)
            if message.queue_offset > newest + 1:
                self.faults.append(f"{now_s:.1f} s: {queue} leaps to {message.queue_offset}")
            self.newest[queue] = max(newest, message.queue_offset)
        self.last_time[queue] = now_s
        await asyncio.sleep(self.chance.uniform(0.0, 0.3))


async def _nothing():
    pass
