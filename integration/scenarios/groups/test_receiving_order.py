"""Receiving in order goes on in order when the broker's next process takes over what was saved."""

from __future__ import annotations

import pytest

from ariane_sdk import ClusterClient, Message, Producer, ReceiveConsumer

GROUP = "waiters"
TOPIC = "steps"
MESSAGE_GROUPS = [f"account-{number}" for number in range(12)]


async def send(cluster, step):
    """One message of each message group."""
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch(
            [Message(TOPIC, b"%d" % step, message_group=group) for group in MESSAGE_GROUPS]
        )


@pytest.mark.timeout(120)
async def test_a_message_group_stays_in_order_over_a_restart(local_cluster, monkeypatch):
    # Python hashes texts by a seed that each process draws.
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    async with local_cluster() as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=1)
            await client.set_receive_in_order(GROUP, in_order=True)
        await send(cluster, 0)
        async with ReceiveConsumer(
            cluster.name_servers, group=GROUP, subscriptions={TOPIC: "*"}, invisible_s=3600
        ) as consumer:
            in_hand = await consumer.receive_batch(len(MESSAGE_GROUPS), timeout_s=30)
            assert {message.message_group for message in in_hand} == set(MESSAGE_GROUPS)
            monkeypatch.setenv("PYTHONHASHSEED", "2")
            await cluster.brokers[0].restart()
            await send(cluster, 1)
            await consumer.ack(*in_hand[::2])
            following = await consumer.receive_batch(len(MESSAGE_GROUPS), timeout_s=30)
    finished = {message.message_group for message in in_hand[::2]}
    assert {message.message_group for message in following} == finished
