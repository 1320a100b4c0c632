"""Brokers and name servers that go away and come back, as processes."""

import asyncio
import itertools
from collections import Counter

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    errors,
)

PATIENT = ProducerSettings(send_timeout_s=25.0, repeats_max=20)
BRISK = PushSettings(offset_store_interval_s=0.2, hold_s=2.0, handover_s=0.3)
_numbers = itertools.count()


class Counted:
    """A listener that counts what it gets."""

    def __init__(self):
        self.bodies = Counter()
        self.order = {}
        self.changed = asyncio.Condition()

    async def __call__(self, messages):
        for message in messages:
            self.bodies[message.body] += 1
            self.order.setdefault(message.message_group, []).append(int(message.body))
        async with self.changed:
            self.changed.notify_all()

    async def wait(self, count):
        async with asyncio.timeout(40), self.changed:
            await self.changed.wait_for(lambda: len(self.bodies) >= count)


@pytest.fixture
async def topic(fragile_cluster):
    name = f"faults-{next(_numbers)}"
    async with ClusterClient(fragile_cluster.name_servers) as client:
        await client.create_topic(name)
    return name


@pytest.fixture
def message(topic):
    def message(number):
        return Message(topic, str(number).encode(), message_group=f"g{number % 5}")

    return message


@pytest.mark.parametrize("ending", [pytest.param("terminate", marks=pytest.mark.slow), "kill"])
async def test_a_broker_restarts_in_the_middle(fragile_cluster, topic, message, ending):
    [broker] = fragile_cluster.brokers
    counted = Counted()
    async with (
        Producer(fragile_cluster.name_servers, settings=PATIENT) as producer,
        PushConsumer(
            fragile_cluster.name_servers,
            group=f"group-{topic}",
            subscriptions={topic: "*"},
            listener=counted,
            start="earliest",
            settings=BRISK,
        ) as consumer,
    ):
        await consumer.wait_assigned()
        await asyncio.gather(*(producer.send(message(number)) for number in range(200)))
        await counted.wait(200)

        getattr(broker, ending)()
        await broker.wait()
        sends = [producer.send_nowait(message(number)) for number in range(200, 400)]
        await asyncio.sleep(0.2)
        await broker.restart()
        await asyncio.gather(*sends)
        await counted.wait(400)
        assert len(consumer.assignment) == 4

    assert set(counted.bodies) == {str(number).encode() for number in range(400)}
    for numbers in counted.order.values():
        # Repeats are allowed, going back is not: each number comes first in its place.
        assert list(dict.fromkeys(numbers)) == sorted(set(numbers))


async def test_offsets_that_a_killed_broker_has_lost_are_stored_again(
    fragile_cluster, topic, message
):
    """Although the group has nothing more to consume."""
    [broker] = fragile_cluster.brokers
    group, counted = f"group-{topic}", Counted()
    async with (
        ClusterClient(fragile_cluster.name_servers) as client,
        Producer(fragile_cluster.name_servers) as producer,
        PushConsumer(
            fragile_cluster.name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=counted,
            start="earliest",
            settings=BRISK,
        ),
    ):

        async def lag():
            return sum(each.message_count for each in await client.consumer_lag(group, topic))

        async def caught_up():
            async with asyncio.timeout(30):
                while await lag():  # noqa: ASYNC110 - nobody tells it.
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(producer.send(message(number)) for number in range(20)))
        await counted.wait(20)
        await caught_up()
        broker.kill()
        await broker.wait()
        await broker.restart()
        await caught_up()


async def test_name_servers_go_and_messages_go_on(fragile_cluster, topic, message):
    counted = Counted()
    async with (
        Producer(fragile_cluster.name_servers) as producer,
        PushConsumer(
            fragile_cluster.name_servers,
            group=f"group-{topic}",
            subscriptions={topic: "*"},
            listener=counted,
            start="earliest",
            settings=BRISK,
        ) as consumer,
    ):
        await producer.send(message(0))
        await consumer.wait_assigned()
        for process in fragile_cluster.name_server_processes:
            process.kill()
            await process.wait()
        for number in range(1, 20):
            await producer.send(message(number))
        await counted.wait(20)

        with pytest.raises(errors.SendError):
            await producer.send(Message("unheard-of", b""), timeout_s=1.0)


async def test_a_killed_member_leaves_its_queues_to_the_others(fragile_cluster, topic, message):
    first, second = Counted(), Counted()

    def member(listener):
        return PushConsumer(
            fragile_cluster.name_servers,
            group=f"group-{topic}",
            subscriptions={topic: "*"},
            listener=listener,
            start="earliest",
            settings=BRISK,
        )

    doomed = member(first)
    await doomed.start()
    await doomed.wait_assigned()
    async with member(second) as survivor, Producer(fragile_cluster.name_servers) as producer:
        await survivor.wait_assigned()
        # What a killed process does: its connections end, and nothing is said or stored.
        for task in doomed._life._tasks:
            task.cancel()
        for work in doomed._life.owned.in_work():
            for task in work._tasks:
                task.cancel()
        await doomed._life.session.connections.close()
        await asyncio.gather(*(producer.send(message(number)) for number in range(100)))
        await asyncio.wait_for(second.wait(100), 60)
        assert len(survivor.assignment) == 4
    await doomed.close()
