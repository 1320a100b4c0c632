"""Members of one group: in order while an owner is killed or frozen; agreed on what they want."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import defaultdict
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ariane_sdk import ClusterClient, Message, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

pytestmark = pytest.mark.slow

GROUP = "in-order"
TOPIC = "steps"
LEASE_S = 2.0
STOPPED = os.WSTOPPED | os.WNOWAIT
BROKER_FLAGS = (
    *("--queue-lock-lease-s", str(LEASE_S)),
    # A frozen client is forgotten only after its silence.
    *("--client-heartbeat-s", "0.5"),
    *("--client-silence-s", "2"),
    *("--client-scan-s", "0.2"),
)


@pytest.fixture
def group_cluster(tmp_path):
    """Start brokers whose locks die soon."""

    def group_cluster(broker_count):
        flags = (*SMALL_STORE, *BROKER_FLAGS)
        return LocalCluster(tmp_path / "cluster", brokers=broker_count, extra_broker_args=flags)

    return group_cluster


async def until(ask):
    """Wait until a question is answered with something true."""
    async with asyncio.timeout(60):
        while not await ask():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


class Member:
    """A process that consumes."""

    def __init__(self, process, path):
        self.process = process
        self.path = path

    def signal(self, number):
        os.kill(self.process.pid, number)

    def done(self, what="end"):
        """What it has done so far; a line that is half written is left out."""
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        happened = [SimpleNamespace(**json.loads(line)) for line in lines]
        return [happening for happening in happened if happening.what == what]

    def numbers(self):
        return {number for happening in self.done() for number in happening.numbers}


@pytest.fixture
def start_member(tmp_path):
    """Start a member as a process of its own; all are ended with the block."""

    @asynccontextmanager
    async def start_member(cluster, name, *, ordered=True, tags="*"):
        path = tmp_path / f"{name}.jsonl"
        with path.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(Path(__file__).with_name("group_member.py")),
                *(cluster.name_servers, GROUP, TOPIC, name),
                "ordered" if ordered else "plain",
                *(tags, str(LEASE_S)),
                stdout=out,
            )
        try:
            yield Member(process, path)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.wait()

    return start_member


async def send(cluster, begin, end):
    async with Producer(cluster.name_servers) as producer:
        for number in range(begin, end):
            await producer.send(Message(TOPIC, str(number).encode(), message_group="all"))


def check_order(*members):
    """Each queue in order, but for what came again when the owner changed; never two at once."""
    ends = defaultdict(list)
    for member in members:
        for happening in member.done():
            ends[happening.queue].append(happening)
    for queue, happened in ends.items():
        happened.sort(key=lambda happening: happening.at_s)
        by_member = defaultdict(list)
        for happening in happened:
            by_member[happening.name] += happening.numbers
        for name, numbers in by_member.items():
            assert numbers == sorted(set(numbers)), f"{name} at {queue}"
        reached = -1
        for happening in happened:
            assert happening.numbers[0] <= reached + 1, f"a gap at {queue}: {happening}"
            reached = max(reached, happening.numbers[-1])


async def stored_sum(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        return sum(lag.consumer_offset for lag in await client.consumer_lag(GROUP, TOPIC))


async def created_topic(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(TOPIC, queue_count=1)


async def owner_of(members):
    """Who consumes the one queue, and who does not."""

    async def somebody():
        return any(member.numbers() for member in members)

    await until(somebody)
    first, second = members
    return (first, second) if first.numbers() else (second, first)


def at_work(members):
    """Who has a delivery in its hands."""
    return next((m for m in members if len(m.done("begin")) > len(m.done())), None)


async def frozen_in_work(members, cluster):
    """Stop the owner while a delivery is in its hands: it, and where the numbers sent end."""
    end = 0
    async with asyncio.timeout(60), Producer(cluster.name_servers) as producer:
        while True:
            await producer.send(Message(TOPIC, str(end).encode(), message_group="all"))
            end += 1
            while not any(end - 1 in member.numbers() for member in members):
                if owner := at_work(members):
                    owner.signal(signal.SIGSTOP)
                    # A stop is carried out a moment after the signal was sent.
                    await asyncio.to_thread(os.waitid, os.P_PID, owner.process.pid, STOPPED)
                    if at_work([owner]):
                        return owner, end
                    owner.signal(signal.SIGCONT)
                await asyncio.sleep(0.001)


async def test_a_killed_owner_is_followed_by_another_member(group_cluster, start_member):
    async with group_cluster(1) as cluster:
        await created_topic(cluster)
        async with start_member(cluster, "a") as a, start_member(cluster, "b") as b:
            sending = asyncio.create_task(send(cluster, 0, 200))
            owner, other = await owner_of((a, b))
            before = owner.numbers()
            owner.signal(signal.SIGKILL)
            await owner.process.wait()
            await sending

            async def all_done():
                return owner.numbers() | other.numbers() == set(range(200))

            await until(all_done)
            check_order(a, b)
            # No sooner than the dead one's lock: nobody knows that it is dead.
            last = max(h.at_s for h in owner.done())
            assert min(h.at_s for h in other.done("begin")) > last
            assert len(owner.numbers() & other.numbers()) < len(before) + 20


async def test_a_frozen_owner_comes_back_and_stores_nothing(group_cluster, start_member):
    async with group_cluster(1) as cluster:
        await created_topic(cluster)
        async with start_member(cluster, "a") as a, start_member(cluster, "b") as b:
            owner, end = await frozen_in_work((a, b), cluster)
            other = b if owner is a else a
            await send(cluster, end, end + 50)

            async def other_has_the_rest():
                return end + 49 in other.numbers()

            await until(other_has_the_rest)

            async def all_stored():
                return await stored_sum(cluster) == end + 50

            await until(all_stored)
            frozen = len(owner.done())
            owner.signal(signal.SIGCONT)

            async def refused():
                return owner.done("refused") or len(owner.done()) > frozen

            await until(refused)
            # What it had in hand it may have finished; nothing else was begun, nothing stored.
            await send(cluster, end + 50, end + 90)

            async def all_done():
                return set(range(end + 90)) <= owner.numbers() | other.numbers()

            await until(all_done)
            assert await stored_sum(cluster) >= end + 50
            assert len([h for h in owner.done() if h.numbers[0] < end + 50]) <= frozen + 1
            check_order_of(a, b)


def check_order_of(*members):
    """As ``check_order``, but for the one delivery that a frozen member had in hand."""
    for member in members:
        numbers = [number for happening in member.done() for number in happening.numbers]
        assert numbers == sorted(set(numbers))


async def test_a_frozen_member_does_not_make_its_deleted_group_anew(
    group_cluster, start_member, ariane
):
    async with group_cluster(1) as cluster:
        await created_topic(cluster)
        async with start_member(cluster, "a", ordered=False) as member:
            await send(cluster, 0, 10)

            async def all_done():
                return member.numbers() == set(range(10))

            await until(all_done)
            member.signal(signal.SIGSTOP)

            async def deleted():
                # In use until the member has been silent for too long.
                status, _ = await ariane(cluster, "group", "delete", GROUP, "--yes")
                return status == 0

            await until(deleted)
            member.signal(signal.SIGCONT)

            async def gone():
                return member.done("gone")

            await until(gone)
            async with ClusterClient(cluster.name_servers) as client:
                assert GROUP not in await client.list_groups()


async def test_who_wants_something_else_is_caught_before_anything_is_lost(
    group_cluster, start_member
):
    async with group_cluster(2) as cluster:
        await created_topic(cluster)
        async with start_member(cluster, "a", ordered=False) as a:

            async def joined():
                return a.done("joined")

            await until(joined)
            async with start_member(cluster, "b", ordered=False, tags="rare") as b:

                async def rejected():
                    return b.done("rejected")

                await until(rejected)
                await send(cluster, 0, 100)

                async def all_done():
                    return a.numbers() == set(range(100))

                await until(all_done)
                assert b.done() == []
            async with ClusterClient(cluster.name_servers) as client:
                [conflict, *_] = await client.subscription_conflicts(GROUP)
                assert conflict.member.subscriptions == {TOPIC: "*"}
                assert conflict.newcomer.subscriptions == {TOPIC: "rare"}
                assert conflict.refused
