"""Pulls that go on by themselves: seldom asked for, and never left behind by what changes."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from itertools import count

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
)
from ariane_sdk.consumer.pulling.pull_stream import PullStream

_numbers = count()


class Arrivals:
    """What a listener got."""

    def __init__(self):
        self.bodies = []
        self.changed = asyncio.Condition()

    async def __call__(self, messages):
        self.bodies += [message.body.decode() for message in messages]
        async with self.changed:
            self.changed.notify_all()

    async def wait(self, number):
        await self.wait_for(lambda: len(self.bodies) >= number)

    async def wait_for(self, condition, timeout_s=60):
        async with asyncio.timeout(timeout_s), self.changed:
            await self.changed.wait_for(condition)


class Asked:
    """The pulls that were asked for."""

    def __init__(self, monkeypatch, *, knows_following=True):
        self.follow = []
        ask = PullStream.ask

        async def noted(stream, request, *, follow):
            self.follow.append(follow)
            await ask(stream, request, follow=follow and knows_following)

        monkeypatch.setattr(PullStream, "ask", noted)


@pytest.fixture
async def topic(cluster):
    name = f"followed-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=4)
    return name


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running


@asynccontextmanager
async def consuming(cluster, topic, listener, *, ordered=False, **settings):
    options = {"rebalance_gap_s_min": 0.05, "handover_s": 0.1, "hold_s": 10.0} | settings
    async with PushConsumer(
        cluster.name_servers,
        group=f"group-{topic}",
        subscriptions={topic: "*"},
        listener=listener,
        start="earliest",
        ordered=ordered,
        settings=PushSettings(**options),
    ) as consumer:
        await consumer.wait_assigned()
        yield consumer


async def send_and_wait(producer, topic, arrivals, numbers, queue=None):
    for number in numbers:
        await producer.send(Message(topic, b"%d" % number), message_queue=queue)
        await arrivals.wait(number + 1)


async def test_a_consumer_that_keeps_up_asks_seldom(cluster, topic, producer, monkeypatch):
    asked, arrivals = Asked(monkeypatch), Arrivals()
    async with consuming(cluster, topic, arrivals):
        await send_and_wait(producer, topic, arrivals, range(100))
    assert arrivals.bodies == [str(number) for number in range(100)]
    # One for each broker, and those that overtook it while queues were still added.
    assert len(asked.follow) < 20


async def test_a_broker_that_knows_no_such_pulls_is_asked_each_time(
    cluster, topic, producer, monkeypatch
):
    asked, arrivals = Asked(monkeypatch, knows_following=False), Arrivals()
    async with consuming(cluster, topic, arrivals):
        await send_and_wait(producer, topic, arrivals, range(50))
    assert arrivals.bodies == [str(number) for number in range(50)]
    assert len(asked.follow) >= 50


async def test_it_is_asked_anew_when_a_window_is_half_full(cluster, topic, producer, monkeypatch):
    asked, arrivals = Asked(monkeypatch), Arrivals()
    async with consuming(cluster, topic, arrivals, queue_message_count_max=8) as consumer:
        before = len(asked.follow)
        queue = min(consumer.assignment)
        await send_and_wait(producer, topic, arrivals, range(80), queue)
    assert Counter(arrivals.bodies) == Counter(str(number) for number in range(80))
    assert 80 // 8 <= len(asked.follow) - before <= 40


@pytest.mark.parametrize("seed", range(3))
async def test_every_message_arrives_while_members_come_and_go(cluster, topic, producer, seed):
    arrivals = Arrivals()
    total = 600

    async def send():
        for number in range(total):
            await producer.send(Message(topic, b"%d" % number))
            if number % 7 == seed:
                await asyncio.sleep(0.002)

    async with consuming(cluster, topic, arrivals):
        sending = asyncio.create_task(send())
        for _ in range(3):
            async with consuming(cluster, topic, arrivals):
                await asyncio.sleep(0.05)
        await sending
        await arrivals.wait_for(lambda: len(set(arrivals.bodies)) == total)
        # What comes now comes at once: no pull waits for the end of its hold.
        await producer.send(Message(topic, b"last"))
        await arrivals.wait_for(lambda: "last" in arrivals.bodies, timeout_s=12)


async def test_offsets_that_are_reset_are_followed_from_there(cluster, topic, producer):
    arrivals = Arrivals()
    # An offset that is stored between the reset and its notice would repeat messages once more.
    async with consuming(cluster, topic, arrivals, offset_store_interval_s=60.0):
        await send_and_wait(producer, topic, arrivals, range(40))
        async with ClusterClient(cluster.name_servers) as client:
            await client.reset_offsets(f"group-{topic}", topic, "earliest")
        await arrivals.wait(80)
        await send_and_wait(producer, topic, arrivals, range(80, 120))
    again = Counter(arrivals.bodies)
    assert all(again[str(number)] == 2 for number in range(40))


async def test_a_reset_of_one_queue_repeats_nothing_of_the_others(cluster, topic, producer):
    arrivals = Arrivals()
    async with consuming(cluster, topic, arrivals, offset_store_interval_s=60.0):
        sent = [await producer.send(Message(topic, b"%d" % number)) for number in range(40)]
        queues = [result.message_queue for result in sent]
        await arrivals.wait(40)
        async with ClusterClient(cluster.name_servers) as client:
            await client.reset_offsets(f"group-{topic}", topic, {queues[0]: 0})
        await arrivals.wait(45)
        await send_and_wait(producer, topic, arrivals, range(45, 61))
    came = Counter(arrivals.bodies)
    assert [came[str(number)] for number in range(40)] == [
        1 + (queue == queues[0]) for queue in queues
    ]


async def test_another_filter_is_followed_from_where_the_one_before_ended(cluster, topic, producer):
    queue = (await producer.send(Message(topic, b"0", tag="paid"))).message_queue
    settings = PullSettings(hold_s=20.0)
    async with PullConsumer(cluster.name_servers, group="by-hand", settings=settings) as consumer:
        await consumer.assign([queue], filters={topic: "paid"})
        await consumer.seek(queue, "earliest")
        assert [message.body for message in await consumer.poll()] == [b"0"]
        for number, tag in enumerate(["sent", "open", "paid"] * 3, 1):
            await consumer.assign([queue], filters={topic: tag})
            await producer.send(Message(topic, b"%d" % number, tag=tag), message_queue=queue)
            messages = await consumer.poll(timeout_s=12)
            assert [message.body for message in messages] == [b"%d" % number]


async def test_a_queue_that_comes_back_is_pulled_under_its_new_lock(cluster, producer, caplog):
    topic, arrivals = f"followed-{next(_numbers)}", Arrivals()
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic, queue_count=1)
        async with consuming(cluster, topic, arrivals, ordered=True) as consumer:
            queue = min(consumer.assignment)
            await send_and_wait(producer, topic, arrivals, range(3), queue)
            for number in range(3, 6):
                before = consumer._life.owned.find(queue)
                await client.reset_offsets(f"group-{topic}", topic, "latest")
                async with asyncio.timeout(60):
                    while consumer._life.owned.find(queue) in {None, before}:  # noqa: ASYNC110 - nobody tells.
                        await asyncio.sleep(0.01)
                await send_and_wait(producer, topic, arrivals, [number], queue)
    assert arrivals.bodies == [str(number) for number in range(6)]
    assert "is dropped" not in caplog.text
