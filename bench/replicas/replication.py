"""Brokers with replicas beside one without, catching up, and the time of a failover, in one run.

    .venv/bin/python -m bench.replicas.replication [--seconds 2] [--rounds 5] [--kills 20]
    .venv/bin/python -m bench.replicas.replication --pin     the primary alone on one processor

All processes share this machine: with two processors a replica takes its part from the primary, so
that ratios say what replication costs here, not what it does over a network. What does not depend
on that is beside them: processor seconds for each GB that was sent, of clients, primary, replicas.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from grpc import aio

from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.errors import SendError
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from bench.measure import Row, write_results

BODY: Final = b"x" * 1024
BATCH: Final = 500
IN_FLIGHT: Final = 4
LOOK_S: Final = 0.1
LEASE_S: Final = 5.0
LEASES_GOAL: Final = 1.5
SEGMENT_BYTES: Final = 256 << 20
"""Each broker has a segment ready beside the one that it fills, perhaps in memory."""

TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


async def state_of(process: ServiceProcess) -> Any:
    """What a broker says of its set."""
    async with aio.insecure_channel(process.address) as channel:
        stub = ReplicaSetServiceStub(channel)
        return await stub.GetReplicaSet(set_pb.GetReplicaSetRequest(), timeout=5)


async def wait_in_sync(brokers: Sequence[ServiceProcess], count: int) -> ServiceProcess:
    """Wait until so many are in sync; the primary."""
    async with asyncio.timeout(120):
        while True:
            for process in brokers:
                with suppress(aio.AioRpcError):
                    state = await state_of(process)
                    if state.has_lease and len(state.replica_set.in_sync_broker_ids) == count:
                        return process
            await asyncio.sleep(0.05)


async def wait_level(brokers: Sequence[ServiceProcess]) -> None:
    """Wait until the replicas of a primary have all that it has."""
    async with asyncio.timeout(120):
        while True:
            state = await state_of(brokers[0])
            if all(not one.behind_bytes for one in state.replicas):
                return
            await asyncio.sleep(0.02)


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def pin(pid: int, processors: set[int]) -> None:
    """Let all threads of a process run on some processors only."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), processors)


@dataclass(slots=True)
class Group:
    """A broker with its replicas, and what was measured of it."""

    name: str
    """What the rows say."""
    brokers: Sequence[ServiceProcess]
    """The primary first."""
    producer: Producer
    """Sends to it."""
    rates: list[float] = field(default_factory=list)
    """Messages a second, of each round."""
    costs: list[tuple[float, ...]] = field(default_factory=list)
    """Processor seconds for each GB of bodies: of client, primary, and all replicas."""
    behind: list[int] = field(default_factory=list)
    """Bytes that the replica which was furthest behind lacked, looked at while messages were sent:
    what the loss of the primary would take under `local`."""

    async def measure(self, seconds: float) -> None:
        """Send for some seconds, batches of 1 KiB messages; replicas' time until they have all."""
        messages = [Message("bench", BODY)] * BATCH
        pids = [os.getpid(), *(broker.pid for broker in self.brokers)]
        before = [cpu_s(pid) for pid in pids]
        count, begin_s = 0, time.monotonic()

        async def send() -> None:
            nonlocal count
            while time.monotonic() < begin_s + seconds:
                await self.producer.send_batch(messages)
                count += BATCH

        async def look() -> None:
            while self.brokers[1:] and time.monotonic() < begin_s + seconds:
                state = await state_of(self.brokers[0])
                self.behind.append(max(one.behind_bytes for one in state.replicas))
                await asyncio.sleep(LOOK_S)

        looking = asyncio.create_task(look())
        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
        self.rates.append(count / (time.monotonic() - begin_s))
        await looking
        if len(self.brokers) > 1:
            await wait_level(self.brokers)
        used = [cpu_s(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
        gigabytes = count * len(BODY) / 1e9
        self.costs.append(tuple(one / gigabytes for one in (used[0], used[1], sum(used[2:]))))


async def throughput(seconds: float, rounds: int, *, pinned: bool) -> None:
    """All kinds of groups in turns, so that a drift of the machine is the same for all."""
    kinds = (
        ("no replica", 0, "local"),
        ("1 replica, local", 1, "local"),
        ("1 replica, replicated", 1, "replicated"),
        ("2 replicas, replicated", 2, "replicated"),
    )
    async with AsyncExitStack() as stack:
        groups = []
        for name, replicas, acknowledge in kinds:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            flags = ["--segment-bytes", str(SEGMENT_BYTES)]
            flags += ["--acknowledge", acknowledge] if replicas else []
            cluster = LocalCluster(Path(folder), replicas=replicas, extra_broker_args=flags)
            await stack.enter_async_context(cluster)
            producer = await stack.enter_async_context(Producer(cluster.name_servers))
            group = Group(name, [*cluster.brokers, *cluster.replicas], producer)
            if replicas:
                await wait_in_sync(group.brokers, replicas + 1)
            await producer.send_batch([Message("bench", BODY)] * BATCH)
            if pinned:
                pin(group.brokers[0].pid, {0})
                for replica in group.brokers[1:]:
                    pin(replica.pid, {1})
            groups.append(group)
        if pinned:
            pin(os.getpid(), {1})
        for _ in range(rounds):
            for group in groups:
                await group.measure(seconds)
    alone = groups[0]
    print(
        f"{'':24}{'messages/s':>12}{'ratio':>7}{'lowest':>8}   CPU s/GB: client primary replicas"
        "   behind, MB: median most"
    )
    for group in groups:
        ratios = [one / other for one, other in zip(group.rates, alone.rates, strict=True)]
        client, primary, others = (median(column) for column in zip(*group.costs, strict=True))
        print(
            f"{group.name:24}{median(group.rates):12,.0f}{median(ratios):7.2f}{min(ratios):8.2f}"
            f"{client:20.2f}{primary:8.2f}{others:9.2f}"
            f"{median(group.behind or [0]) / 1e6:21.1f}{max(group.behind, default=0) / 1e6:5.1f}"
        )


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


def p99_of(values: Sequence[float]) -> float:
    """The 99th percentile of sorted values."""
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


def rows_of(times: Sequence[float]) -> list[Row]:
    """Failovers as rows of the page: beside the lease, which each of them waits for.

    Args:
        times: Seconds that each took, sorted.
    """
    return [
        Row(
            work=f"kill of a primary to the first acknowledged send, {name}",
            ours=took,
            unit="s",
            against="a lease",
            theirs=LEASE_S,
            ratio=LEASE_S / took,
            ratio_min=LEASE_S / times[-1],
            ratio_max=LEASE_S / times[0],
            pairs=len(times),
            goal=1 / LEASES_GOAL,
            extra={"leases": took / LEASE_S, "kills": len(times)},
        )
        for name, took in (("p50", median(times)), ("p99", p99_of(times)))
    ]


async def measure(arguments: argparse.Namespace) -> None:
    """Measure all, and print it."""
    if arguments.rounds:
        await throughput(arguments.seconds, arguments.rounds, pinned=arguments.pin)
        print(f"catching up         {await catch_up(200):10,.0f} MB/s")
    if arguments.kills:
        times = await failovers(arguments.kills)
        leases = [took / LEASE_S for took in times]
        p99 = p99_of(leases)
        if arguments.keep:
            write_results("replication", rows_of(times))
        print(f"failover, {arguments.kills} kills, in leases of {LEASE_S:g} s:")
        print(f"    p50 {median(leases):.2f}, p99 {p99:.2f}, longest {leases[-1]:.2f}")
        print("    each:", " ".join(f"{each:.2f}" for each in leases))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of throughput; 0: none")
    parser.add_argument("--kills", type=int, default=20, help="for the failover; 0: none")
    parser.add_argument("--keep", action="store_true", help="keep the failovers for the page")
    parser.add_argument("--pin", action="store_true", help="the primary alone on one processor")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
