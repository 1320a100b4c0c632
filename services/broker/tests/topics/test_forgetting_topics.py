"""What groups had in a deleted topic is forgotten in turns of the loop, and nothing else is."""

import asyncio
from types import SimpleNamespace

from ariane_broker.clients.deaths.client_work import GroupQueue
from ariane_broker.clients.deaths.suspicions import Suspicion, Suspicions
from ariane_broker.clients.room import forget_topics
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_servicekit import at_once
from ariane_servicekit.running.turns import EXAMINED_MAX

COUNT = 2 * EXAMINED_MAX
"""Queues of the topic, and topics beside it."""


class Changes:
    """Counts what is to be saved."""

    def __init__(self):
        self.count = 0

    def mark_changed(self):
        self.count += 1


class Streams:
    """Streams of no producer."""

    def forget_topics(self, topics):
        return iter(())


def filled():
    offsets = ConsumerOffsets(now_ms=lambda: 1)
    changes = Changes()
    epochs = SimpleNamespace(begun=0)
    state = SimpleNamespace(
        epochs=SimpleNamespace(begin=lambda: setattr(epochs, "begun", epochs.begun + 1)),
        locks=QueueLocks(monotonic=lambda: 0, now_ms=lambda: 1, lease_seconds=60),
        suspicions=Suspicions(),
        saved_suspicions=changes,
        offsets=offsets,
        saved_offsets=changes,
        receiving=ReceiveTable(offsets, lambda: None),
    )
    for number in range(COUNT):
        for queue in (QueueKey("gone", number), QueueKey(f"topic-{number}", 0)):
            state.offsets.reset("group", queue, 7)
            state.suspicions.put(GroupQueue("group", queue), Suspicion(watched_end=9))
            state.receiving.apply(ReceiveEvent(EventKind.BEGIN, "group", queue, offset=7))
            at_once(state.locks.lock("group", "client", [queue]))
    return state, epochs, changes


async def test_what_groups_had_in_a_topic_is_forgotten_in_turns():
    state, epochs, changes = filled()
    forgetting = asyncio.create_task(
        forget_topics(
            state, SimpleNamespace(sequences=Streams(), statistics=BrokerStatistics()), ["gone"]
        )
    )
    turns = 0
    while not forgetting.done():
        await asyncio.sleep(0)
        turns += 1
    # Two tables with two queues of each number, and two that go by topic.
    assert turns >= (2 * 2 + 2) * COUNT // EXAMINED_MAX
    assert epochs.begun == 1
    assert changes.count == 2
    left = {QueueKey(f"topic-{number}", 0) for number in range(COUNT)}
    gone = QueueKey("gone", 1)
    assert set(state.offsets.queues_of("group")) == left
    assert state.offsets.reset_epoch("group", gone) == 0
    assert state.receiving.of_group("group").keys() == {queue.topic for queue in left}
    assert {QueueKey(*row[1:3]) for row in state.suspicions.document()["suspicions"]} == left
    locked = state.locks.document()["lockTable"]["group"]
    assert {QueueKey(row["topic"], row["queueId"]) for row in locked} == left
