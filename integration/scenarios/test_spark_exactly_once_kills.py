"""A stream from topic to topic through deaths of everything: each row once, and none missing.

Every third row has a delivery time, some seconds ahead: none of them comes early.

Speculation is on, as it would be on a cluster; a Spark of one process starts no second task by it.
Attempts that lose come from tasks that die when all is staged, and from drivers that are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from ariane_sdk import ClusterClient, Message, Producer, QueueReader
from ariane_sdk.errors import ArianeError

SEED = int(os.environ.get("KILL_SEED", "7"))
CRASHES = int(os.environ.get("SPARK_CRASHES", "30"))

KINDS = (
    *("in write", "worker", "staged"),
    *("before commit", "after commit", "commit without answer", "replay"),
    *("broker", "driver"),
)
"""A task that fails half way, is killed half way, is killed when all is staged; the process that
commits is killed before and after it, or fails after it, or a batch that is committed comes again;
broker and driver are killed at any time."""

ROWS_OF_CRASH = 160
"""So many that the stream is not at its end before the last crash: some micro-batches of 20."""

STEP_S = 600
"""How long Spark may take to come to a fault, on a machine that has other things to do."""


class CopyingQuery:
    """The process that copies, started as often as it is killed."""

    def __init__(self, folder, *arguments):
        self.faults = folder / "faults"
        self.faults.mkdir(parents=True)
        self.log_path = folder / "query.log"
        self._arguments = (*arguments, str(folder))
        self._process = None

    async def start(self):
        here = Path(__file__).parent
        paths = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
        with self.log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(here / "copying_query.py"),
                *self._arguments,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths, "FAULTS": str(self.faults)},
                start_new_session=True,
            )

    async def kill(self):
        """Kill driver and JVM at once; Python workers see it and end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def arm(self, kind, passes):
        (self.faults / "struck").unlink(missing_ok=True)
        (self.faults / "next").write_text(json.dumps({"kind": kind, "passes": passes}))
        (self.faults / "next").rename(self.faults / "armed")

    def check_alive(self):
        assert self._process.returncode is None, self.log_path.read_text()[-3000:]

    def has_struck(self):
        self.check_alive()
        return (self.faults / "struck").exists()


async def numbers_of(name_servers, topic):
    """How often each number is there, and those that came before their time."""
    found, early = [], []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                for message in map(columns.message, range(len(columns))):
                    found.append(int(message.body))
                    due_ms = int(message.properties.get("due", "0"))
                    assert bool(due_ms) is (found[-1] % 3 == 0)
                    if message.store_timestamp_ms < due_ms:
                        early.append(found[-1])
    return Counter(found), early


async def message_count(name_servers, topic):
    with contextlib.suppress(ArianeError):
        async with QueueReader(name_servers) as reader:
            bounds = await reader.bounds(topic)
            return sum(end - begin for begin, end in bounds.values())
    return -1


async def moves_on(name_servers, until, query):
    """Wait until the copy grows: the query lives."""
    before = await message_count(name_servers, "copies")

    async def more():
        query.check_alive()
        return await message_count(name_servers, "copies") > before

    await until(more, seconds=STEP_S)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("crashes", sorted({3, CRASHES}))
async def test_each_row_once_through_crashes(local_cluster, until, tmp_path, monkeypatch, crashes):
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    monkeypatch.setattr("ariane_servicekit.processes.READY_S_MAX", STEP_S)
    chance = random.Random(SEED)
    # All kinds in turn, each turn in another order.
    kinds = [kind for _ in range(crashes) for kind in chance.sample(KINDS, len(KINDS))][:crashes]
    rows = ROWS_OF_CRASH * (crashes + 1)
    async with local_cluster() as cluster:
        names, (broker,) = cluster.name_servers, cluster.brokers
        async with ClusterClient(names) as client, Producer(names) as producer:
            await client.create_topic("flights", queue_count=3)
            await client.create_topic("copies", queue_count=4)
            for first in range(0, rows, 80):
                batch = range(first, first + 80)
                await producer.send_batch(
                    [Message("flights", b"%d" % n, tag=f"t{n % 9}") for n in batch]
                )
        query = CopyingQuery(tmp_path / "spark", names, "flights", "copies")
        await query.start()
        try:
            await moves_on(names, until, query)
            for number, kind in enumerate(kinds):
                print(number, kind, await message_count(names, "copies"), flush=True)
                if kind == "broker":
                    await asyncio.sleep(chance.uniform(0, 1.0))
                    broker.kill()
                    await broker.wait()
                    await asyncio.sleep(chance.uniform(0, 1.5))
                    await broker.restart()
                elif kind == "driver":
                    await asyncio.sleep(chance.uniform(0, 1.0))
                    await query.kill()
                    await query.start()
                else:
                    query.arm(kind, chance.randrange(3))

                    async def struck():
                        return query.has_struck()

                    await until(struck, seconds=STEP_S)
                assert await message_count(names, "copies") < rows, f"too early: {number} {kinds}"
                await moves_on(names, until, query)

            async def complete():
                query.check_alive()
                return await message_count(names, "copies") >= rows

            await until(complete, seconds=STEP_S + rows / 20)
            # Whoever writes twice would do it now, and what is for later would come.
            await asyncio.sleep(4)
        finally:
            await query.kill()
        found, early = await numbers_of(names, "copies")
    print(dict(Counter(kinds)), f"rows {rows}, found {found.total()}, different {len(found)}")
    assert [row for row, count in found.items() if count > 1] == [], f"twice: {SEED} {kinds}"
    assert sorted(found) == list(range(rows)), f"lost: seed {SEED} {kinds}"
    assert early == [], f"early: seed {SEED} {kinds}"
