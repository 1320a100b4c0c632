"""Brokers as far as the members of a group see them, and what lies between the two.

Their queue locks are real, and outlive a restart as they do. Streams and offsets are played, and so
are calls: they take time, and some are lost with or before their answers.
"""

from __future__ import annotations

import asyncio
import json

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.queue_key import QueueKey
from ariane_sdk import errors
from ariane_sdk.client.caution import NO_CAUTION
from ariane_sdk.client.queue_position import QueuePosition
from ariane_servicekit import at_once

GROUP = "group"
LEASE_S = 60.0
CALL_TIMEOUT_S = 3.0


class Broker:
    """A broker: real locks, on a disk that survives; streams and offsets that are played."""

    def __init__(self, world, name):
        self.world, self.name, self.up, self.life = world, name, True, 0
        self.members = {}
        self.offsets, self.saved_offsets = {}, {}
        self.locks = self.new_locks()
        self.saved_locks = json.dumps(self.locks.document())

    def new_locks(self):
        clock = self.world.clock
        return QueueLocks(monotonic=clock.monotonic_s, now_ms=clock.now_ms, lease_seconds=LEASE_S)

    def end(self):
        self.up = False
        for stream in list(self.members.values()):
            stream.end()
        self.members.clear()

    def start(self):
        self.up, self.life = True, self.life + 1
        self.locks = self.new_locks()
        self.locks.load(json.loads(self.saved_locks))
        self.offsets = dict(self.saved_offsets)

    def save_locks(self):
        self.saved_locks = json.dumps(self.locks.document())

    def attach(self, stream):
        self.members[stream.client_id] = stream
        self.tell_others(stream.client_id)

    def detach(self, stream):
        if self.members.get(stream.client_id) is stream:
            del self.members[stream.client_id]
            self.tell_others(stream.client_id)

    def tell_others(self, client_id):
        changed = client_pb.MembershipChanged(consumer_group=GROUP)
        for other in self.members.values():
            if other.client_id != client_id:
                self.world.later(other.hear, client_pb.AttachResponse(membership_changed=changed))

    def lock(self, client_id, queues):
        if client_id not in self.members:
            raise errors.CallError("not attached", reason="CLIENT_NOT_ATTACHED")
        taken = self.locks.lock(
            GROUP, client_id, map(_key, queues), is_gone=lambda owner: owner not in self.members
        )
        owned = {lock.queue: lock for lock in at_once(taken)}
        if any(lock.changed for lock in owned.values()) or at_once(self.locks.ages_due()):
            self.save_locks()
        return {queue: owned[_key(queue)].epoch for queue in queues if _key(queue) in owned}

    def unlock(self, client_id, epochs):
        keys = {_key(queue): epoch for queue, epoch in epochs.items()}
        if at_once(self.locks.unlock(GROUP, client_id, keys)):
            self.save_locks()
            self.tell_others(client_id)

    def refusal(self, client_id, queue, epoch):
        refusal = self.locks.refusal(GROUP, client_id, _key(queue), epoch)
        return None if refusal is None else errors.CallError("", reason=refusal.row.name)


class Stream:
    """What an ``Attachment`` is to its consumer."""

    def __init__(
        self, name, address, connections, *, client_id, membership, on_notice, on_turn, **_
    ):
        self.broker_name, self.address, self.client_id = name, address, client_id
        self.member, self.attached, self.error = connections, False, None
        self.said = self.heard = membership
        self._on_notice, self._on_turn = on_notice, on_turn
        self._world = self.member.world
        self._broker = self._world.brokers[name]
        self._tried, self._ended, self._leaving = asyncio.Event(), asyncio.Event(), False
        self._task = asyncio.create_task(self._run())

    @property
    def ended(self):
        return self._task.done()

    def change_membership(self, membership):
        self.said = membership
        if self.attached:
            self._world.later(self._broker_hears, membership)

    def _broker_hears(self, membership):
        if self.attached and self.heard != membership:
            self.heard = membership
            self._broker.tell_others(self.client_id)

    def hear(self, response):
        if self.attached:
            self._on_notice(self.broker_name, response)

    def end(self):
        self._ended.set()

    async def wait_tried(self):
        await self._tried.wait()

    async def close(self, _timeout_s):
        self._leaving = True
        self._ended.set()
        if not self.attached:
            self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self):
        while not self._leaving:
            if self._broker.up and self.member.connected:
                self._ended.clear()
                self.attached, self.heard = True, self.said
                self._broker.attach(self)
                self.hear(client_pb.AttachResponse(accepted=client_pb.AttachAccepted()))
                self._tried.set()
                await self._ended.wait()
                self.attached = False
                self._broker.detach(self)
            self._tried.set()
            if not self._leaving:
                self._on_turn()
                await asyncio.sleep(self._world.chance.uniform(0.1, 2.0))


class Calls:
    """What a member asks brokers, for locks, offsets and members; takes time, may be lost."""

    def __init__(self, connections, *, client_id="", lock_epoch_of=None, **_):
        self.member, self.client_id, self._lock_epoch_of = connections, client_id, lock_epoch_of
        self._world = self.member.world

    async def _ask(self, route, act):
        broker, chance = self._world.brokers[route.broker_name], self._world.chance
        await asyncio.sleep(chance.uniform(0.001, 0.05))
        if self.member.dead:
            await self._world.over.wait()
        if self._world.over.is_set():
            raise errors.ServiceUnavailable("over")
        lost = not self.member.connected or chance.random() < self._world.loss
        if lost and chance.random() < 0.5:
            await self._time_out()
        if not broker.up:
            raise errors.ServiceUnavailable("down", retriable=True)
        life, answer = broker.life, act(broker)
        await asyncio.sleep(chance.uniform(0.001, 0.05))
        if lost:
            await self._time_out()
        if not broker.up or broker.life != life:
            raise errors.ServiceUnavailable("went down", outcome_unknown=True, retriable=True)
        return answer

    async def _time_out(self):
        await asyncio.sleep(CALL_TIMEOUT_S)
        raise errors.DeadlinePassed("no answer", outcome_unknown=True, retriable=True)

    async def lock(self, route, queues):
        queues = list(queues)
        return await self._ask(
            route, lambda broker: (broker.lock(self.client_id, queues), broker.locks.relied_seconds)
        )

    async def unlock(self, route, epochs):
        await self._ask(route, lambda broker: broker.unlock(self.client_id, dict(epochs)))

    async def load(self, route, queues):
        queues = list(queues)
        return await self._ask(
            route,
            lambda broker: {queue: broker.offsets.get(queue, QueuePosition(0)) for queue in queues},
        )

    async def store(self, route, offsets, *, durable=False, last=False, **_):
        epochs = {queue: self._lock_epoch_of(queue) for queue in offsets}
        offsets = dict(offsets)

        def store(broker):
            refused = {}
            for queue, offset in offsets.items():
                error = broker.refusal(self.client_id, queue, epochs[queue])
                if error is None:
                    broker.offsets[queue] = offset
                else:
                    refused[queue] = error
            if durable or last:
                broker.saved_offsets = dict(broker.offsets)
            return refused

        return await self._ask(route, store)

    def caution_of(self, _queue):
        return NO_CAUTION

    async def group_members(self, route, _group):
        return await self._ask(
            route,
            lambda broker: [
                client_pb.GroupMember(client_id=name, membership=stream.heard)
                for name, stream in broker.members.items()
            ],
        )


def _key(queue):
    return QueueKey(queue.topic, queue.queue_id)
