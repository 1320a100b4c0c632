"""Consumers that stay while their topic is deleted and made anew get all of the new one."""

import asyncio
import itertools

import pytest

from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, PushConsumer
from ariane_sdk.consumer.pulling import pull_loop

OLD, NEW = 20, 60
_numbers = itertools.count()


class Pushed:
    """What a consumer is handed, as numbers."""

    def __init__(self, names, topic):
        self.numbers = []
        self.consumer = PushConsumer(
            names,
            group=f"{topic}-pushed",
            subscriptions={topic: "*"},
            listener=self.take,
            start="earliest",
        )

    async def take(self, messages):
        self.numbers += [int(message.body) for message in messages]

    async def got(self, count):
        async with asyncio.timeout(120):
            while len(set(self.numbers)) < count:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)


class Polled(Pushed):
    """The same of one that asks."""

    def __init__(self, names, topic):
        self.numbers = []
        self.consumer = PullConsumer(
            names,
            group=f"{topic}-polled",
            subscriptions={topic: "*"},
            start="earliest",
        )

    async def got(self, count):
        async with asyncio.timeout(120):
            while len(set(self.numbers)) < count:
                self.numbers += [
                    int(message.body) for message in await self.consumer.poll(timeout_s=1)
                ]


async def send(names, topic, numbers):
    """All to the same queue."""
    async with Producer(names) as producer:
        await producer.send_batch([Message(topic, b"%d" % n, message_group="g") for n in numbers])


@pytest.mark.parametrize("kind", [Pushed, Polled])
async def test_a_topic_made_anew_and_longer_is_consumed_from_its_begin(cluster, kind, monkeypatch):
    monkeypatch.setattr(pull_loop, "RECONNECT_DELAY_S_MAX", 0.05)
    topic = f"anew-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic, queue_count=1)
        await send(cluster.name_servers, topic, range(OLD))
        consuming = kind(cluster.name_servers, topic)
        async with consuming.consumer:
            await consuming.got(OLD)
            await client.delete_topic(topic)
            await client.create_topic(topic, queue_count=1)
            await send(cluster.name_servers, topic, range(OLD, NEW))

            await consuming.got(NEW)

    assert set(consuming.numbers) == set(range(NEW))
