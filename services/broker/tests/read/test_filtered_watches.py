"""Readers that wait with one condition: it is evaluated once for all of them."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import Watch
from ariane_broker.queue_key import QueueKey
from ariane_sql92.condition import Condition
from services.broker.tests.receive.receive_calls import Receiver, held

READERS = 300

TEXT = "shop = 'wanted'"
WANTED = subscription_pb.Subscription(
    topic="orders",
    filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_SQL92, text=TEXT),
)


@pytest.fixture
def evaluated(monkeypatch):
    """How many messages each evaluation of a condition looked at."""
    counts = []
    mask = Condition.mask

    def counting(condition, columns):
        counts.append(columns.row_count)
        return mask(condition, columns)

    monkeypatch.setattr(Condition, "mask", counting)
    return counts


async def store(broker, body, shop):
    await broker.store("orders", [body], properties={"shop": shop})


async def wait_for(evaluated, count):
    async with asyncio.timeout(60):
        while len(evaluated) < count:  # noqa: ASYNC110 - of the broker
            await asyncio.sleep(0.005)


async def test_many_pulls_are_woken_by_one_evaluation(broker, evaluated, read_bodies):
    await broker.create_topic("orders")
    pulls = [
        asyncio.create_task(broker.pull(("orders", 0, 0), hold_s=30, subscriptions=[WANTED]))
        for _ in range(READERS)
    ]
    await held(broker, READERS)
    for number in 1, 2:
        await store(broker, b"other", "other")
        await wait_for(evaluated, number)
        await held(broker, READERS)
    await store(broker, b"new", "wanted")
    for (pulled,) in await asyncio.gather(*pulls):
        assert (read_bodies(pulled), pulled.next_queue_offset) == ([b"new"], 3)
    assert evaluated == [1, 1, 1]


async def test_who_comes_back_after_the_hold_looks_at_nothing_again(broker, evaluated):
    await broker.create_topic("orders")
    waiting = asyncio.create_task(broker.pull(("orders", 0, 0), hold_s=30, subscriptions=[WANTED]))
    short = asyncio.create_task(broker.pull(("orders", 0, 0), hold_s=0.5, subscriptions=[WANTED]))
    await held(broker, 2)
    for _ in range(3):
        await store(broker, b"other", "other")
    ((pulled,),) = await asyncio.gather(short)
    assert pulled.next_queue_offset == 3
    assert sum(evaluated) == 3
    # What one has not looked at, because nobody waited, it does look at.
    await store(broker, b"new", "wanted")
    assert await broker.bodies("orders", queue_offset=3, subscriptions=[WANTED]) == [b"new"]
    ((pulled,),) = await asyncio.gather(waiting)
    assert pulled.next_queue_offset == 4


async def test_members_of_many_groups_receive_by_one_evaluation(broker, evaluated):
    await broker.create_topic("orders")
    received = [
        asyncio.create_task(
            Receiver(broker, f"group-{number}").receive("orders", sql=TEXT, hold_s=30)
        )
        for number in range(20)
    ]
    await held(broker, 20)
    await store(broker, b"other", "other")
    await wait_for(evaluated, 1)
    await held(broker, 20)
    await store(broker, b"new", "wanted")
    for (message,) in await asyncio.gather(*received):
        assert message.message.body == b"new"
    # The groups take both in one look: the first is not settled before.
    assert evaluated == [1, 1, 2]


async def test_what_was_seen_of_a_deleted_topic_says_nothing_of_a_later_one(
    broker, evaluated, read_bodies
):
    await broker.create_topic("orders")
    holder = asyncio.create_task(broker.pull(("orders", 0, 0), hold_s=30, subscriptions=[WANTED]))
    await held(broker, 1)
    for _ in range(3):
        await store(broker, b"other", "other")
    await wait_for(evaluated, 1)
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    await broker.create_topic("orders")
    for _ in range(5):
        await store(broker, b"new", "wanted")
    (pulled,) = await broker.pull(("orders", 0, 0), subscriptions=[WANTED])
    assert (len(read_bodies(pulled)), pulled.next_queue_offset) == (5, 5)
    await holder


def passes_nothing(end):
    """What a read of a queue finds up to its end."""
    return SimpleNamespace(
        count=0, lost_offsets=(), next_queue_offset=end, max_queue_offset=end, looked_at_bytes=9
    )


class Filter:
    """Compares each record so many times."""

    def __init__(self, looks_per_record):
        self.looks_per_record = looks_per_record


@pytest.mark.parametrize(("looks_per_record", "in_a_turn"), [(0, 13), (1, 13), (100, 4)])
async def test_fewer_filters_look_in_a_turn_the_more_they_compare(looks_per_record, in_a_turn):
    queue, reads, turns = QueueKey("orders", 0), [], [0]
    store = SimpleNamespace(
        queue_bounds=lambda *_: (0, 0),
        read_queue=lambda *_, **__: reads.append(1) or passes_nothing(1),
    )
    watches = FilteredWatches(store)
    for _ in range(40):
        watches.add(queue, Filter(looks_per_record), Watch())
    watches.arrived(queue)
    while len(reads) < 40:
        await asyncio.sleep(0)
        turns.append(len(reads))
    assert max(after - before for before, after in pairwise(turns)) == in_a_turn


async def test_a_deleted_queue_takes_along_what_filters_saw_of_it():
    queue, wanted, watch = QueueKey("orders", 0), Filter(1), Watch()
    nothing = passes_nothing(3)
    end = 0
    watches = FilteredWatches(
        SimpleNamespace(queue_bounds=lambda *_: (0, end), read_queue=lambda *_, **__: nothing)
    )
    watches.add(queue, wanted, watch)
    watches.arrived(queue)
    await asyncio.sleep(0)
    end = 9
    assert [watches.passed_over(queue, wanted, offset) for offset in (0, 2, 3)] == [3, 3, 3]
    end = 0
    # One step for the filter, one for the queue: other calls have their turns in between.
    assert list(watches.begin_anew(["orders"])) == [None, None]
    end = 9
    assert watches.passed_over(queue, wanted, 0) == 0
    watches.remove(queue, wanted, watch)
    assert not watches.queues
