"""Brokers with replicas beside one without, catching up, and the time of a failover, in one run.

    .venv/bin/python bench/replication.py [--seconds 4] [--kills 5]

All processes share this machine: with two processors a replica takes its part from the primary, so
that ratios say what replication costs here, not what it does over a network.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from grpc import aio

from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.errors import SendError
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess

BODY = b"x" * 1024
BATCH = 500
IN_FLIGHT = 4
LEASE_S = 5.0


async def state_of(process: ServiceProcess) -> Any:
    """What a broker says of its set."""
    async with aio.insecure_channel(process.address) as channel:
        stub = ReplicaSetServiceStub(channel)
        return await stub.GetReplicaSet(set_pb.GetReplicaSetRequest(), timeout=5)


async def wait_in_sync(brokers: list[ServiceProcess], count: int) -> ServiceProcess:
    """Wait until so many are in sync; the primary."""
    async with asyncio.timeout(120):
        while True:
            for process in brokers:
                with suppress(aio.AioRpcError):
                    state = await state_of(process)
                    if state.has_lease and len(state.replica_set.in_sync_broker_ids) == count:
                        return process
            await asyncio.sleep(0.05)


async def throughput(replicas: int, acknowledge: str, seconds: float) -> float:
    """Messages of 1 KiB a second, in batches."""
    flags = ("--acknowledge", acknowledge) if replicas else ()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder), replicas=replicas, extra_broker_args=flags)
        async with cluster, Producer(cluster.name_servers) as producer:
            if replicas:
                await wait_in_sync([*cluster.brokers, *cluster.replicas], replicas + 1)
            messages = [Message("bench", BODY)] * BATCH
            await producer.send_batch(messages)
            count, end_s = 0, time.monotonic() + seconds

            async def send() -> None:
                nonlocal count
                while time.monotonic() < end_s:
                    await producer.send_batch(messages)
                    count += BATCH

            begin_s = time.monotonic()
            await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
            return count / (time.monotonic() - begin_s)


async def catch_up(megabytes: int) -> float:
    """MB a second at which an empty replica copies a log that is there."""
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder), replicas=1) as cluster:
            [first], [second] = cluster.brokers, cluster.replicas
            await wait_in_sync([first], 2)
            await second.stop()
            await wait_in_sync([first], 1)
            async with Producer(cluster.name_servers) as producer:
                messages = [Message("bench", BODY)] * BATCH
                for _ in range(megabytes * 1024 // BATCH):
                    await producer.send_batch(messages)
            begin = (await state_of(first)).max_commit_log_offset
            await second.start()
            begin_s = time.monotonic()
            await wait_in_sync([first], 2)
            return begin / 1e6 / (time.monotonic() - begin_s)


async def failovers(kills: int) -> list[float]:
    """Seconds from each kill of a primary to the first send that is acknowledged after it."""
    flags = ("--primary-lease-s", str(LEASE_S))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder), replicas=1, extra_broker_args=flags)
        settings = ProducerSettings(send_timeout_s=30)
        async with cluster, Producer(cluster.name_servers, settings=settings) as producer:
            brokers = [*cluster.brokers, *cluster.replicas]
            for _ in range(kills):
                primary = await wait_in_sync(brokers, 2)
                await producer.send(Message("bench", BODY))
                primary.kill()
                begin_s = time.monotonic()
                while True:
                    with suppress(SendError):
                        await producer.send(Message("bench", BODY))
                        break
                found.append(time.monotonic() - begin_s)
                await primary.wait()
                await primary.start()
    return sorted(found)


async def measure(seconds: float, kills: int) -> None:
    """Measure all, and print it."""
    alone = await throughput(0, "local", seconds)
    print(f"no replica                      {alone:10,.0f} messages/s   1.00")
    for replicas, acknowledge in ((1, "local"), (1, "replicated"), (2, "replicated")):
        rate = await throughput(replicas, acknowledge, seconds)
        name = f"{replicas} replica(s), {acknowledge}"
        print(f"{name:30}  {rate:10,.0f} messages/s   {rate / alone:.2f}")
    print(f"catching up                     {await catch_up(200):10,.0f} MB/s")
    times = await failovers(kills)
    leases = [took / LEASE_S for took in times]
    middle, longest = f"{median(times):.2f} s", f"{times[-1]:.2f} s"
    print(f"failover, {kills} kills: half within {middle}, that is {median(leases):.2f} leases,")
    print(f"    the longest {longest}, that is {leases[-1]:.2f} leases")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.seconds, arguments.kills))


if __name__ == "__main__":
    main()
