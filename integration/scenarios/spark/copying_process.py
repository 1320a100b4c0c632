"""A process that copies a topic exactly once, and what is in the copy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from ariane_sdk import QueueReader
from ariane_sdk.errors import ArianeError

STEP_S = 600
"""How long Spark may take to come to a fault, on a machine that has other things to do."""


class CopyingQuery:
    """The process that copies, started as often as it is killed."""

    def __init__(self, folder, *arguments):
        self.faults = folder / "faults"
        self.faults.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.log_path = folder / "query.log"
        self.arguments = arguments
        self._folder = folder
        self._process = None

    async def start(self):
        here = Path(__file__).parent
        paths = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
        with self.log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(here / "copying_query.py"),
                *self.arguments,
                str(self._folder),
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

    async def commits(self, count, until):
        """Wait until so many more micro-batches are committed."""
        before = self._last_commit()

        async def more():
            self.check_alive()
            return self._last_commit() >= before + count

        await until(more, seconds=STEP_S)

    def _last_commit(self):
        names = (path.name for path in (self.checkpoint / "commits").glob("*"))
        return max(map(int, filter(str.isdigit, names)), default=-1)

    async def go_on(self, until, checkpoint=None, *, rows=20, name="itself"):
        """Have it go on from a checkpoint, its own unless told, by micro-batches of some rows."""
        place = str(checkpoint or self.checkpoint)
        await self._order(until, {"checkpoint": place, "rows": rows, "name": name})

    async def pause(self, until):
        """Have it stop its query, and wait."""
        await self._order(until, {"checkpoint": None})

    async def _order(self, until, order):
        (self.faults / "obeyed").unlink(missing_ok=True)
        (self.faults / "next").write_text(json.dumps(order))
        (self.faults / "next").rename(self.faults / "order")

        async def obeyed():
            self.check_alive()
            return (self.faults / "obeyed").exists()

        await until(obeyed, seconds=STEP_S)

    async def is_refused(self, until, name):
        """Wait until it is told that its micro-batch is another one; and have it wait then."""
        text = f"refused as {name}: micro-batch"

        async def refused():
            self.check_alive()
            return text in self.log_path.read_text()

        await until(refused, seconds=STEP_S)
        await self.pause(until)
        said = self.log_path.read_text().partition(text)[2]
        assert "was committed before, with other rows" in said
        assert "start the query with a new checkpoint" in said

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
