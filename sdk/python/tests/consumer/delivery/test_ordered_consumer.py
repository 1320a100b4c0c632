"""Consuming in order: one owner of each queue at a time, failures repeat in place."""

import asyncio
import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from ariane_sdk import (
    ClusterClient,
    DeadLetters,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    errors,
)

_numbers = itertools.count()

BRISK = PushSettings(
    rebalance_gap_s_min=0.05,
    handover_s=0.05,
    offset_store_interval_s=0.1,
    suspend_s=0.05,
    hold_s=2.0,
)


class Floor:
    """What all members of a group do, and where two of them are at one queue at once."""

    def __init__(self):
        self.bodies = defaultdict(list)
        self.busy = {}
        self.overlaps = []
        self.fail = lambda _message: False
        self.failures = Counter()

    def listener(self, name):
        async def listen(messages):
            queue = messages[0].message_queue
            other = self.busy.setdefault(queue, name)
            if other != name:
                self.overlaps.append((queue, other, name))
            try:
                await asyncio.sleep(0.002)
                for message in messages:
                    if self.fail(message):
                        self.failures[message.body] += 1
                        raise RuntimeError("not yet")
                self.bodies[queue] += [int(message.body) for message in messages]
            finally:
                del self.busy[queue]

        return listen

    @property
    def count(self):
        return sum(map(len, self.bodies.values()))


@pytest.fixture
async def topic(cluster):
    name = f"ordered-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
def floor():
    return Floor()


@pytest.fixture
def make_consumer(cluster, topic, floor):
    def make(name, **arguments):
        options = {"group": "in-order", "start": "earliest", "batch_size": 4, "settings": BRISK}
        return PushConsumer(
            cluster.name_servers,
            subscriptions={topic: "*"},
            listener=floor.listener(name),
            **options | {"ordered": True, "group": f"in-{topic}"} | arguments,
        )

    return make


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.02)


async def send(cluster, topic, numbers):
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch(
            [Message(topic, str(n).encode(), message_group=f"g{n % 8}") for n in numbers]
        )


async def test_failures_suspend_their_queue_and_repeat_before_anything_behind(
    cluster, topic, floor, make_consumer
):
    await send(cluster, topic, range(200))
    floor.fail = lambda message: int(message.body) % 50 == 7 and floor.failures[message.body] < 3
    async with make_consumer("a"):
        await wait_until(lambda: floor.count >= 200)

    assert sorted(itertools.chain(*floor.bodies.values())) == list(range(200))
    for numbers in floor.bodies.values():
        assert numbers == sorted(numbers)
    assert floor.failures == {b"7": 3, b"57": 3, b"107": 3, b"157": 3}


async def test_a_message_that_fails_holds_its_queue_for_as_long_as_it_takes(
    cluster, topic, floor, make_consumer
):
    await send(cluster, topic, range(40))
    broken = [True]
    floor.fail = lambda message: broken[0] and message.body == b"7"

    async def holds(client):
        return [each for one in await client.list_members(f"in-{topic}") for each in one.holds]

    brisk = replace(BRISK, suspend_s=0.005)
    async with (
        make_consumer("a", settings=brisk),
        ClusterClient(cluster.name_servers) as client,
    ):
        # More than with the others of its batch, and then alone, up to the limit of other groups.
        await wait_until(lambda: floor.failures[b"7"] > 40)
        async with asyncio.timeout(60):
            while not (held := await holds(client)):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        broken.clear()
        broken.append(False)
        await wait_until(lambda: floor.count >= 40)
        async with asyncio.timeout(60):
            while await holds(client):  # noqa: ASYNC110 - there is nothing to be told by.
                await asyncio.sleep(0.05)
    (hold,) = held
    assert (hold.reason, hold.message_queue.topic) == ("failed_in_order", topic)
    assert hold.attempts > 0
    assert "not yet" in hold.cause
    for numbers in floor.bodies.values():
        assert numbers == sorted(numbers)
    async with DeadLetters(cluster.name_servers) as letters:
        assert [each async for each in letters.read(f"in-{topic}")] == []


async def test_a_dead_letter_that_is_sent_back_comes_again(cluster, topic):
    await send(cluster, topic, [7])
    seen = []

    async def listen(messages):
        seen.extend((message.topic, message.body) for message in messages)
        if len(seen) == 1:
            raise errors.MessagesFailed(messages, "never", rejected=True)

    group = f"back-{topic}"
    consumer = PushConsumer(
        cluster.name_servers,
        group=group,
        subscriptions={topic: "*"},
        listener=listen,
        start="earliest",
        ordered=True,
        settings=BRISK,
    )
    async with consumer, DeadLetters(cluster.name_servers) as letters, asyncio.timeout(60):
        while not [each async for each in letters.read(group)]:  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.02)
        await letters.redrive(group)
        await wait_until(lambda: len(seen) == 2)
    assert seen == [(topic, b"7")] * 2


async def test_no_two_members_are_at_one_queue_while_members_come_and_go(
    cluster, topic, floor, make_consumer
):
    sending = asyncio.create_task(send(cluster, topic, range(2000)))
    async with make_consumer("a") as first:
        await first.wait_assigned()
        assert len(first.assignment) == 4
        for name in ("b", "c"):
            async with make_consumer(name) as other:
                await other.wait_assigned()
                await wait_until(lambda other=other: other.assignment)
                assert not other.assignment & first.assignment
        await sending
        await wait_until(lambda: floor.count >= 2000)

    assert floor.overlaps == []
    counts = Counter(itertools.chain(*floor.bodies.values()))
    assert counts == dict.fromkeys(range(2000), 1)
    for numbers in floor.bodies.values():
        by_group = defaultdict(list)
        for number in numbers:
            by_group[number % 8].append(number)
        assert all(group == sorted(group) for group in by_group.values())


async def test_one_queue_is_one_order_of_everything(cluster, floor, make_consumer, topic):
    whole = f"{topic}-whole"
    async with ClusterClient(cluster.name_servers) as client:
        broker = (await client.list_brokers())[0].broker_name
        await client.create_topic(whole, queue_count=1)
        queue = next(q for q in (await client.route(whole)).read_queues if q.broker_name == broker)
    async with Producer(cluster.name_servers) as producer:
        for number in range(50):
            await producer.send(Message(whole, str(number).encode()), message_queue=queue)
    consumer = PushConsumer(
        cluster.name_servers,
        group=f"g-{whole}",
        subscriptions={whole: "*"},
        listener=floor.listener("a"),
        start="earliest",
        ordered=True,
        settings=BRISK,
    )
    async with consumer:
        await wait_until(lambda: floor.count >= 50)
    assert floor.bodies == {queue: list(range(50))}


async def test_a_member_without_order_is_refused(make_consumer):
    async with make_consumer("a") as first:
        await first.wait_assigned()
        with pytest.raises(errors.GroupRefused):
            await make_consumer("b", ordered=False).start()


@pytest.mark.slow
async def test_owners_keep_their_queues_over_a_restart_of_the_broker(fragile_cluster, floor):
    cluster = fragile_cluster
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("kept", queue_count=2)
    await send(cluster, "kept", range(400))

    def member(name):
        return PushConsumer(
            cluster.name_servers,
            group="keepers",
            subscriptions={"kept": "*"},
            listener=floor.listener(name),
            start="earliest",
            batch_size=4,
            ordered=True,
            settings=BRISK,
        )

    async with member("a") as first, member("b") as second:
        await wait_until(lambda: first.assignment and second.assignment and floor.count > 40)
        before = (first.assignment, second.assignment)
        cluster.brokers[0].kill()
        await cluster.brokers[0].wait()
        await cluster.brokers[0].restart()
        await wait_until(lambda: set(itertools.chain(*floor.bodies.values())) == set(range(400)))
        await wait_until(lambda: (first.assignment, second.assignment) == before)

    assert floor.overlaps == []
    for numbers in floor.bodies.values():
        for group in range(8):
            first_times = list(dict.fromkeys(n for n in numbers if n % 8 == group))
            assert first_times == sorted(first_times)
