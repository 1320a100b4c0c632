"""Replicas whose stores are not what the set relies on: of another set, older, cut or damaged."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack

import pytest
from replica_group import in_sync, state_of

from ariane_sdk import Message, Producer, QueueReader
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def send(cluster, name, count):
    """Messages with bodies of one name, all acknowledged."""
    async with Producer(cluster.name_servers) as producer:
        bodies = (b"%s %d" % (name.encode(), number) for number in range(count))
        await producer.send_batch([Message("orders", body) for body in bodies])


async def bodies_in(cluster):
    found = []
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds("orders")).items():
            async for columns in reader.read_range(queue, begin, end):
                found += [bytes(columns.message(row).body) for row in range(len(columns))]
    return found


async def troubled(process, words):
    """Wait until a broker says why it does not follow."""
    async with asyncio.timeout(60):
        while words not in (await state_of(process)).trouble:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def test_a_replica_with_a_store_of_another_set_takes_no_part(tmp_path):
    async with AsyncExitStack() as stack:
        ours, theirs = [
            await stack.enter_async_context(
                LocalCluster(tmp_path / name, replicas=1, extra_broker_args=(*SMALL_STORE, *QUICK))
            )
            for name in ("ours", "theirs")
        ]
        for cluster, count in ((ours, 50), (theirs, 200)):
            await in_sync(cluster.brokers[0], 0, 1)
            await send(cluster, cluster.data_path.name, count)
        [first], [second] = ours.brokers, ours.replicas
        await second.stop()
        await theirs.replicas[0].stop()
        shutil.rmtree(tmp_path / "ours" / second.name)
        store = tmp_path / "ours" / second.name
        shutil.copytree(tmp_path / "theirs" / second.name, store)
        await second.start()
        await troubled(second, "belongs to the replica set")
        await in_sync(first, 0)
        await send(ours, "ours, later,", 50)
        first.kill()
        await first.wait()
        await second.restart()  # With nobody to ask, it is not elected either.
        await troubled(second, "belongs to the replica set")
        await first.start()
        await in_sync(first, 0)
        found = await bodies_in(ours)
        assert len(found) == 100
        assert all(body.startswith(b"ours") for body in found)
        await second.stop()
        shutil.rmtree(store)
        await second.start()
        await in_sync(first, 0, 1)
