"""FilterServers and their workers are killed while a group consumes: nothing is lost.

Everything is real: processes of a cluster, jailed workers, SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from grpc import aio

from ariane.filter.v1.filter_server_service_pb2 import GetFilterServerStateRequest
from ariane.filter.v1.filter_server_service_pb2_grpc import FilterServerServiceStub
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest, UploadFilterRequest
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_sdk import (
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    Uploaded,
    errors,
)
from ariane_servicekit.running.broker_groups import broker_groups
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.closed_clusters import open_aio_channel
from ariane_testkit.small_store import SMALL_STORE

SEED = int(os.environ.get("KILL_SEED", "7"))
TOPIC = "flights"
THIRD = b"""
def matches(message):
    return int(message.properties["number"]) % 3 == 0
"""
BURST = 200
BURSTS = 60
LEFT_S = 7.0
"""A second of hold and ``call_timeout_s`` (3 s), and a slow machine."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def upload(server: ServiceProcess) -> Uploaded:
    async with open_aio_channel(server.address) as channel:
        request = UploadFilterRequest(filter="third", module=THIRD)
        kept = (await FilterServiceStub(channel).UploadFilter(request)).filter
    return Uploaded(f"{kept.filter}@{kept.version[:12]}")


async def workers_of(server: ServiceProcess) -> list[int]:
    """The processes of its workers; none when it does not answer."""
    async with open_aio_channel(server.address) as channel:
        with suppress(aio.AioRpcError):
            stub = FilterServerServiceStub(channel)
            state = await stub.GetFilterServerState(GetFilterServerStateRequest(), timeout=5)
            return [worker.process_id for worker in state.workers if worker.process_id]
    return []


async def send(producer: Producer, first: int, count: int) -> None:
    await producer.send_batch(
        [
            Message(TOPIC, b"%d" % number, properties={"number": str(number)})
            for number in range(first, first + count)
        ]
    )


async def test_a_group_goes_on_through_kills_of_servers_and_workers(tmp_path: Path) -> None:
    """Two members, two FilterServers; every few bursts one of them or one of their workers dies."""
    chance = random.Random(SEED)
    found: Counter[int] = Counter()
    killed: Counter[str] = Counter()
    total = BURST * BURSTS

    async def listen(messages: list[Message]) -> None:
        found.update(int(message.body) for message in messages)

    async def kill_one(servers: list[ServiceProcess]) -> None:
        server = chance.choice(servers)
        if chance.random() < 0.5:
            for pid in await workers_of(server):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed["worker"] += 1
            return
        server.kill()
        await server.wait()
        killed["server"] += 1
        # The other one serves alone for a while.
        await asyncio.sleep(chance.random() * 0.3)
        await server.start()

    async with LocalCluster(tmp_path, filter_servers=2, extra_broker_args=SMALL_STORE) as cluster:
        late = await upload(cluster.filter_servers[0])
        members = [
            PushConsumer(
                cluster.name_servers,
                group="thirds",
                subscriptions={TOPIC: late},
                listener=listen,
                start="earliest",
                settings=PushSettings(filter_servers_wait_s=120),
            )
            for _ in range(2)
        ]
        async with Producer(cluster.name_servers) as producer:
            await send(producer, 0, BURST)
            async with members[0], members[1]:
                for burst in range(1, BURSTS):
                    await send(producer, burst * BURST, BURST)
                    if burst % 4 == 0:
                        await kill_one(cluster.filter_servers)
                async with asyncio.timeout(300):
                    while len(found) < total // 3:  # noqa: ASYNC110 - members tell nobody
                        await asyncio.sleep(0.1)
        assert sorted(found) == list(range(0, total, 3)), f"seed {SEED}"
        assert min(killed["worker"], killed["server"]) >= 2, killed
        async with QueueReader(cluster.name_servers) as reader:
            stored = await reader.stored_offsets("thirds", TOPIC)
        assert sum(stored.values()) == total


async def test_no_server_left_is_a_clear_error_and_a_new_one_goes_on(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, filter_servers=2, extra_broker_args=SMALL_STORE) as cluster:
        late = await upload(cluster.filter_servers[0])

        def consumer(wait_s: float) -> PullConsumer:
            return PullConsumer(
                cluster.name_servers,
                group="thirds",
                subscriptions={TOPIC: late},
                start="earliest",
                settings=PullSettings(filter_servers_wait_s=wait_s),
            )

        async def take(member: PullConsumer, count: int) -> list[int]:
            found: list[int] = []
            async with asyncio.timeout(120):
                while len(found) < count:
                    found += [int(message.body) for message in await member.poll(timeout_s=60)]
            return sorted(found)

        async with Producer(cluster.name_servers) as producer:
            await send(producer, 0, 300)
            async with consumer(10) as member:
                assert await take(member, 100) == list(range(0, 300, 3))
                for server in cluster.filter_servers:
                    server.kill()
                    await server.wait()
                await send(producer, 300, 300)
                with pytest.raises(errors.FilterServersUnreachable, match="offsets stay"):
                    await take(member, 1)
            async with QueueReader(cluster.name_servers) as reader:
                assert sum((await reader.stored_offsets("thirds", TOPIC)).values()) == 300
            # What was uploaded is on the disk: the restarted one needs no upload.
            await cluster.filter_servers[1].start()
            async with consumer(120) as member:
                assert await take(member, 100) == list(range(300, 600, 3))


async def test_a_frozen_server_is_left_for_the_other_one_within_seconds(tmp_path: Path) -> None:
    """Its connections stay open, and it holds pulls that nobody will answer."""
    found: set[int] = set()
    waited_s: dict[int, float] = {}

    async def listen(messages: list[Message]) -> None:
        found.update(int(message.body) for message in messages)

    async def come(total: int) -> None:
        async with asyncio.timeout(120):
            while len(found) < total // 3:  # noqa: ASYNC110 - members tell nobody
                await asyncio.sleep(0.02)

    async with LocalCluster(tmp_path, filter_servers=2, extra_broker_args=SMALL_STORE) as cluster:
        late = await upload(cluster.filter_servers[0])
        member = PushConsumer(
            cluster.name_servers,
            group="thirds",
            subscriptions={TOPIC: late},
            listener=listen,
            start="earliest",
        )
        async with Producer(cluster.name_servers) as producer, member:
            await send(producer, 0, 300)
            await come(300)
            # The second has the member by then, unless it had it from the beginning.
            for number, server in enumerate(cluster.filter_servers, 1):
                os.kill(server.pid, signal.SIGSTOP)
                try:
                    began_s = time.monotonic()
                    await send(producer, number * 300, 300)
                    await come((number + 1) * 300)
                    waited_s[number] = time.monotonic() - began_s
                finally:
                    os.kill(server.pid, signal.SIGCONT)
        assert found == set(range(0, 900, 3))
        assert max(waited_s.values()) < LEFT_S, waited_s


async def test_a_group_goes_on_beside_a_new_primary(tmp_path: Path) -> None:
    """The primary and its FilterServer are killed: the one beside the replica has the filter."""
    found: Counter[int] = Counter()
    total = BURST * 6

    async def listen(messages: list[Message]) -> None:
        found.update(int(message.body) for message in messages)

    flags = (*SMALL_STORE, "--primary-lease-s", "2.5")
    async with LocalCluster(
        tmp_path, replicas=1, filter_servers=1, extra_broker_args=flags
    ) as cluster:
        [group] = broker_groups(cluster)
        await group.wait_in_sync()
        brokers = (*cluster.brokers, *cluster.replicas)
        beside = dict(zip(brokers, cluster.filter_servers, strict=True))
        primary = await group.primary()
        late = await upload(beside[primary])
        [waiting] = [server for broker, server in beside.items() if broker is not primary]
        async with asyncio.timeout(120):
            while not await keeps(waiting, late):  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(0.05)
        async with (
            Producer(cluster.name_servers, settings=ProducerSettings(send_timeout_s=120)) as sender,
            PushConsumer(
                cluster.name_servers,
                group="thirds",
                subscriptions={TOPIC: late},
                listener=listen,
                start="earliest",
                settings=PushSettings(filter_servers_wait_s=120),
            ),
        ):
            await send(sender, 0, total // 2)
            beside[primary].kill()
            await beside[primary].wait()
            await group.kill_primary()
            await send(sender, total // 2, total // 2)
            async with asyncio.timeout(300):
                while set(found) != set(range(0, total, 3)):
                    assert not any(number % 3 for number in found)
                    await asyncio.sleep(0.05)
            assert await workers_of(waiting)


async def keeps(server: ServiceProcess, version: Uploaded) -> bool:
    """Whether a FilterServer has a version."""
    name, _, digits = version.filter_version.partition("@")
    async with open_aio_channel(server.address) as channel:
        stub = FilterServiceStub(channel)
        with suppress(aio.AioRpcError):
            await stub.GetFilter(GetFilterRequest(filter=name, version=digits), timeout=5)
            return True
    return False
