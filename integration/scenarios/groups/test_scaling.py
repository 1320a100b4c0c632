"""A group that grows from one process to eight and shrinks again, while messages arrive."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from ariane_sdk import ClusterClient, Message, Producer

MEMBER = Path(__file__).with_name("scaled_member.py")
BATCH_SIZE = 16
QUEUES = 16
GROUP = "scaled"
TOPIC = "arrivals"


class Member:
    """A process that consumes, and what it has consumed."""

    def __init__(self, name_servers, path):
        self._name_servers = name_servers
        self._path = path
        self._process = None

    async def start(self):
        with self._path.open("wb") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, str(MEMBER), self._name_servers, GROUP, TOPIC, stdout=out
            )

    def lines(self):
        # A line that is half written is left out.
        return self._path.read_text().split("\n")[:-1]

    @property
    def ready(self):
        return "ready" in self.lines()

    @property
    def numbers(self):
        return [int(line) for line in self.lines() if line != "ready"]

    async def leave(self):
        self._process.send_signal(signal.SIGTERM)
        assert await self._process.wait() == 0

    def kill(self):
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


@pytest.mark.slow
async def test_one_to_eight_to_one_leaves_no_gap_and_repeats_little(local_cluster, tmp_path, until):
    async with local_cluster(brokers=2) as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=QUEUES // 2)
        members = [Member(cluster.name_servers, tmp_path / f"member-{n}") for n in range(8)]
        sent_count, sending = 0, True

        async def send():
            nonlocal sent_count
            async with Producer(cluster.name_servers) as producer:
                while sending:
                    numbers = range(sent_count, sent_count + 20)
                    await producer.send_batch([Message(TOPIC, b"%d" % n) for n in numbers])
                    sent_count = numbers.stop
                    await asyncio.sleep(0.02)

        async def all_ready():
            return all(member.ready for member in members)

        async def all_consumed():
            return len({n for member in members for n in member.numbers}) == sent_count

        sender = asyncio.create_task(send())
        try:
            await members[0].start()
            await until(lambda: _is_ready(members[0]), seconds=60)
            await asyncio.gather(*(member.start() for member in members[1:]))
            await until(all_ready, seconds=120)
            await asyncio.sleep(1)
            await asyncio.gather(*(member.leave() for member in members[1:]))
            sending = False
            await sender
            await until(all_consumed, seconds=120)
            await members[0].leave()
        finally:
            sender.cancel()
            for member in members:
                member.kill()

    seen = Counter(number for member in members for number in member.numbers)
    assert set(seen) == set(range(sent_count))
    assert all(member.numbers for member in members)
    # Of each queue that moves, and it may move each time that a member comes or goes, what the old
    # owner had in hand; a listener that is done within `handover_s` repeats nothing at all.
    assert seen.total() - sent_count <= BATCH_SIZE * QUEUES


WORKERS = 4
JOBS = 200


@pytest.mark.slow
async def test_jobs_that_are_sent_together_are_shared_by_four_workers(
    local_cluster, tmp_path, until
):
    async with local_cluster(brokers=1) as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=WORKERS)
        members = [Member(cluster.name_servers, tmp_path / f"worker-{n}") for n in range(WORKERS)]
        numbers = count()

        def jobs(job_count):
            return [Message(TOPIC, b"%d" % next(numbers)) for _ in range(job_count)]

        async def done(messages):
            """How many of these messages each worker has got, once all are consumed."""
            sent = {int(message.body) for message in messages}

            async def all_consumed():
                return sent <= {n for member in members for n in member.numbers}

            await until(all_consumed, seconds=120)
            return [len(sent.intersection(member.numbers)) for member in members]

        try:
            await asyncio.gather(*(member.start() for member in members))
            async with Producer(cluster.name_servers) as producer:
                shares = []
                while shares != [1] * WORKERS:  # Until each worker owns a queue.
                    marks = jobs(WORKERS)
                    queues = (await producer.route(TOPIC)).write_queues
                    for mark, queue in zip(marks, queues, strict=True):
                        await producer.send(mark, message_queue=queue)
                    shares = await done(marks)
                gathered = jobs(JOBS)
                await asyncio.gather(*map(producer.send, gathered))
                at_once = jobs(JOBS)
                await producer.send_batch(at_once)
                assert max(await done(gathered)) < JOBS / 2
                assert await done(at_once) == [JOBS // WORKERS] * WORKERS
        finally:
            for member in members:
                member.kill()


async def _is_ready(member):
    return member.ready
