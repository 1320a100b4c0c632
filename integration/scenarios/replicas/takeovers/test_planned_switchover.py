"""A planned switchover is no failure: nothing looks like a bug, and nothing is delivered twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import pytest
from replica_group import in_sync

from ariane_sdk import ClusterClient, Message, Producer, PushConsumer
from ariane_sdk.errors import CallError

QUICK = ("--primary-lease-s", "2.5")
BUGS = {"loop_turn_failed", "unexpected_exception", "drain_failed", "service_failed"}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_switchovers_log_no_bug(local_cluster, ariane):
    """While messages fall due all the time, which brokers write without a call."""
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        pushing = PushConsumer(
            cluster.name_servers,
            group="pushed",
            start="earliest",
            subscriptions={"orders": "*"},
            listener=lambda _: None,
        )
        async with Producer(cluster.name_servers) as producer, pushing:
            for heir, broker_id in ((second, "1"), (first, "0")) * 2:
                late = [timedelta(milliseconds=10 * one) for one in range(1, 400)]
                await producer.send_batch([Message("orders", b"x", delay=one) for one in late])
                to = ("broker-a", "--to", broker_id, "--yes")
                status, said = await ariane(cluster, "broker", "ha", "switchover", *to)
                assert status == 0, said
                await in_sync(heir, 0, 1)
    for process in (first, second):
        written = process.log_path.read_text().splitlines()
        lines = [json.loads(line) for line in written if line.startswith("{")]
        assert [line for line in lines if line["event"] in BUGS] == []
        # All else is Python's own: of a coroutine that was never awaited, say.
        assert [line for line in written if not line.startswith("{")] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [2, 3])
async def test_members_get_nothing_twice_over_switchovers(local_cluster, ariane, until, count):
    """Also while a third broker stands in for a primary, and before all members are back."""
    got, sent, load_ends = Counter(), [], asyncio.Event()

    async def listen(messages):
        got.update((message.queue_id, message.queue_offset) for message in messages)

    async with local_cluster(*QUICK, replicas=2) as cluster, AsyncExitStack() as running:
        first, second = cluster.brokers[0], cluster.replicas[0]
        client = await running.enter_async_context(ClusterClient(cluster.name_servers))
        await in_sync(first, 0, 1, 2)
        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("orders", b"first"))
            members = []
            for _ in range(count):
                member = PushConsumer(
                    cluster.name_servers,
                    group="pushed",
                    start="earliest",
                    subscriptions={"orders": "*"},
                    listener=listen,
                )
                members.append(await running.enter_async_context(member))

            async def shared():
                """Who joins while the role is handed over does not go on."""
                shares = [member.assignment for member in members]
                return all(shares) and len(frozenset().union(*shares)) == sum(map(len, shares)) >= 4

            async def send():
                while not load_ends.is_set():
                    sent.extend(await producer.send_batch([Message("orders", b"x")] * 50))
                    await asyncio.sleep(0.02)  # Replicas keep pace on a machine of two cores.

            async def all_are_back():
                with suppress(CallError):  # Name servers may not know the new primary yet.
                    return len((await client.members_of_groups()).get("pushed", ())) == count

            await until(shared)
            load = asyncio.create_task(send())
            for heir, broker_id in ((second, "1"), (first, "0")) * 4:
                to = ("broker-a", "--to", broker_id, "--yes")
                status, said = await ariane(cluster, "broker", "ha", "switchover", *to)
                assert status == 0, said
                await in_sync(heir, 0, 1, 2)
                await until(all_are_back)
            load_ends.set()
            await load

        async def all_came():
            return len(got) > len(sent)

        await until(all_came)
    assert set(got.values()) == {1}
