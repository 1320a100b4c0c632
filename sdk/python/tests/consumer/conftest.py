"""A topic of its own for each test, with a producer and push consumers for it."""

import itertools

import pytest

from ariane_sdk import ClusterClient, Producer, PushConsumer
from sdk.python.tests.consumer.push_side import BRISK

_numbers = itertools.count()


@pytest.fixture
async def topic(cluster):
    name = f"orders-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name)
    return name


@pytest.fixture
def make_consumer(cluster, topic):
    def make(listener, *, tags="*", **arguments):
        options = {"group": "billing", "start": "earliest", "settings": BRISK} | arguments
        return PushConsumer(
            cluster.name_servers, subscriptions={topic: tags}, listener=listener, **options
        )

    return make


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running
