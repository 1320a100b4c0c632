"""A broker comes back elsewhere, without the retry topic of a group: its members find it there."""

from __future__ import annotations

import json

import pytest

from ariane_record.names import retry_topic
from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, PushConsumer
from ariane_servicekit.addresses import Address

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG = ProducerSettings(send_timeout_s=60)


def lose(folder, topic):
    """Take a topic out of the table of a broker that is down."""
    [path] = folder.rglob("config/topics.json")
    for file in path.parent.glob("topics.json*"):
        table = json.loads(file.read_text())
        table.get("topicConfigTable", {}).pop(topic, None)
        file.write_text(json.dumps(table))
    assert topic not in path.read_text()


async def test_members_follow_a_broker_that_has_moved_and_lost_their_retry_topic(
    local_cluster, tmp_path, until
):
    heard = []

    async def listen(messages):
        heard.extend(message.body for message in messages)

    async with local_cluster() as cluster:
        [broker] = cluster.brokers
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic("jobs", queue_count=2)

            async def has(body):
                return body in heard

            async with (
                Producer(cluster.name_servers, settings=LONG) as producer,
                PushConsumer(
                    cluster.name_servers,
                    group="billing",
                    subscriptions={"jobs": "*"},
                    listener=listen,
                    start="earliest",
                ) as consumer,
            ):
                await consumer.wait_assigned()
                await producer.send(Message("jobs", b"before"))
                await until(lambda: has(b"before"))
                old = (await client.route(retry_topic("billing"))).primary_addresses
                await broker.stop()
                lose(tmp_path, retry_topic("billing"))
                broker._listen = Address("127.0.0.1", 0)  # noqa: SLF001 - as on another machine.
                await broker.start()
                assert broker.address not in old.values()
                await producer.send(Message("jobs", b"after"))
                await until(lambda: has(b"after"))
