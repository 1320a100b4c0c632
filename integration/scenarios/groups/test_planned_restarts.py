"""A broker that stops, or hands its role over, as planned: what members have done stays done."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, PushSettings
from ariane_sdk.errors import CallError

pytestmark = pytest.mark.slow

COUNT = 100
GROUP = "billing"
PATIENT = PushSettings(
    rebalance_gap_s_min=0.05,
    handover_s=0.05,
    offset_store_interval_s=3600,  # They store nothing unless they are asked to.
)


class Books:
    """What members of the group got."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.got = Counter()

    def member(self):
        async def listen(messages):
            self.got.update(message.body for message in messages)

        return PushConsumer(
            self.cluster.name_servers,
            group=GROUP,
            subscriptions={"orders": "*"},
            listener=listen,
            start="earliest",
            settings=PATIENT,
        )

    async def send(self, *bodies):
        async with Producer(self.cluster.name_servers) as producer:
            await producer.send_batch([Message("orders", body) for body in bodies])

    async def all_came(self):
        return len(self.got) >= COUNT


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "leaves"])
async def test_a_planned_restart_repeats_nothing_that_is_done(local_cluster, ariane, until, stays):
    async with local_cluster() as cluster:
        [broker], books = cluster.brokers, Books(cluster)
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        await books.send(*(b"%d" % number for number in range(COUNT)))
        member = books.member()
        await member.start()
        await until(books.all_came)
        assert await broker.stop() == 0
        if not stays:
            await member.close()
        await broker.start()
        if not stays:
            member = books.member()
            await member.start()
        await books.send(b"last")

        async def last_came():
            return b"last" in books.got

        await until(last_came)
        await member.close()
    assert set(books.got.values()) == {1}


async def test_a_planned_switchover_takes_what_is_done_along(local_cluster, ariane, until):
    async with local_cluster("--primary-lease-s", "2.5", replicas=1) as cluster:
        books = Books(cluster)
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        await books.send(*(b"%d" % number for number in range(COUNT)))
        async with books.member(), ClusterClient(cluster.name_servers) as client:
            await until(books.all_came)

            async def handed_over():
                to = ("broker-a", "--to", "1", "--yes")
                status, _ = await ariane(cluster, "broker", "ha", "switchover", *to)
                return status == 0  # The replica may still have to catch up.

            async def standing():
                with suppress(CallError):  # Name servers may not know the new primary yet.
                    return await client.consumer_lag(GROUP)

            await until(handed_over)
            lags = await until(standing)
            assert {each.message_count for each in lags} == {0}
    assert set(books.got.values()) == {1}
