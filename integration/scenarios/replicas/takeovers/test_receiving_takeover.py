"""A replica takes over while members have messages in hand: they settle them at the new primary."""

from __future__ import annotations

import asyncio

import pytest
from replica_group import in_sync

from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, ReceiveConsumer
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")
COUNT = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def consumer_of(cluster, **options):
    return ReceiveConsumer(
        cluster.name_servers, group="waiters", subscriptions={"jobs": "*"}, **options
    )


async def send(cluster, first, count):
    async with Producer(
        cluster.name_servers, settings=ProducerSettings(send_timeout_s=60)
    ) as producer:
        await producer.send_batch([Message("jobs", b"%d" % n) for n in range(first, first + count)])


async def received(consumer, count):
    """So many messages, of which none comes twice."""
    found = []
    async with asyncio.timeout(120):
        while len(found) < count:
            found += await consumer.receive_batch(count - len(found), timeout_s=60)
    assert len({message.body for message in found}) == count
    return found


async def until_settled(settle):
    """Try as an application does, until there is a primary."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await settle()
            except (ServiceUnavailable, DeadlinePassed):
                await asyncio.sleep(0.2)


async def killed(process):
    process.kill()
    await process.wait()


@pytest.mark.parametrize("ending", ["dies", "hands over"])
async def test_messages_in_hand_are_settled_at_the_new_primary(local_cluster, ariane, ending):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic("jobs", queue_count=2)
        await send(cluster, 0, COUNT)
        async with consumer_of(cluster, invisible_s=3600) as one:
            in_hand = await received(one, COUNT)
            done, failed, dropped, kept = (in_hand[part::4] for part in range(4))
            # The hand-outs are on the replica as soon as something behind them is confirmed.
            await one.ack(*done[:1])
            if ending == "dies":
                await killed(first)
            else:
                to = ("--to", "1", "--yes")
                status, _ = await ariane(cluster, "broker", "ha", "switchover", "broker-a", *to)
                assert status == 0
            await until_settled(lambda: one.ack(*done))
            await until_settled(lambda: one.extend(*kept, seconds=7200))
            await until_settled(lambda: one.nack(*failed, delay_s=0))
            await until_settled(lambda: one.extend(*dropped, seconds=0))
            await in_sync(second, *((1,) if ending == "dies" else (0, 1)))
            # Who has taken over is asked, too: what was given back and what is new come.
            await send(cluster, COUNT, 4)
            again = await received(one, len(failed) + len(dropped) + 4)
            await one.ack(*again)
            await one.ack(*kept)
            assert {message.body for message in again} == {
                *(message.body for message in failed + dropped),
                *(b"%d" % number for number in range(COUNT, COUNT + 4)),
            }
            # Nothing that is done returns, and nothing is lost.
            async with ClusterClient(cluster.name_servers) as client:
                lags = await client.consumer_lag(one.group)
            assert sum(lag.message_count for lag in lags) == 0
            assert await one.receive_batch(timeout_s=3) == []


async def test_an_acknowledged_message_never_returns(local_cluster):
    """Whatever the replica knew of hand-outs: each message is acknowledged, and then not seen."""
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic("jobs", queue_count=2)
        count = 2000
        await send(cluster, 0, count)
        acknowledged, late = set(), []
        async with consumer_of(cluster, invisible_s=5) as one:
            while len(acknowledged) < count:
                if first.running and len(acknowledged) > count // 3:
                    late = await received(one, 8)
                    acknowledging = asyncio.create_task(one.ack(*late[:4]))
                    await asyncio.sleep(0)
                    await killed(first)
                    await asyncio.wait([acknowledging])
                    if acknowledging.exception() is None:
                        acknowledged |= {message.body for message in late[:4]}
                    continue
                try:
                    async with asyncio.timeout(120):
                        batch = await one.receive_batch(16, timeout_s=1)
                        assert not acknowledged & {message.body for message in batch}
                        await one.ack(*batch)
                except CallError:
                    await asyncio.sleep(0.1)
                    continue
                acknowledged |= {message.body for message in batch}
            assert not first.running
            await in_sync(second, 1)
            assert await one.receive_batch(timeout_s=6) == []
            async with ClusterClient(cluster.name_servers) as client:
                lags = await client.consumer_lag(one.group)
            assert sum(lag.message_count for lag in lags) == 0
