"""Every call of the Python client, each in a loop of its own, and those of other languages."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.errors import ArianeError
from integration.scenarios.replicas.calls.call_table import CallTable

TOPIC = "jobs"
REQUESTS = "questions"
INVISIBLE_S = 600.0
OPEN_HALVES = 20
QUERY = Path(__file__).with_name("counting_query.py")


class Callers:
    """All callers of one cluster."""

    def __init__(self, name_servers: str, table: CallTable, group: asyncio.TaskGroup) -> None:
        self.stored: set[bytes] = set()
        """The bodies of all messages whose send was acknowledged."""
        self.pushed: set[bytes] = set()
        """The bodies that the push consumer got."""
        self._servers = name_servers
        self._table = table
        self._group = group
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0

    async def begin(self, stack: AsyncExitStack) -> None:
        """Start the clients, and begin to call."""
        producer = Producer(self._servers, group="tellers")
        self._producer = await stack.enter_async_context(producer)
        self._sends()
        await self._receives(stack)
        await self._reads(stack)
        await self._pulls(stack)
        await self._pushes(stack)

    def end(self) -> None:
        """End all calls."""
        for task in self._tasks:
            task.cancel()

    def run(self, loop) -> None:
        """Have a loop run until the end."""
        self._tasks.append(self._group.create_task(loop))

    def _repeat(self, name, call) -> None:
        self.run(self._table.make_for_ever(name, call))

    def body(self) -> bytes:
        """The next body; no other message has it."""
        self._number += 1
        return b"%d" % self._number

    def _sends(self) -> None:
        producer = self._producer

        async def send(**more):
            body = self.body()
            await producer.send(Message(TOPIC, body), **more)
            self.stored.add(body)

        async def transaction():
            body = self.body()
            async with producer.transaction(Message(TOPIC, body)):
                pass
            self.stored.add(body)

        async def recall():
            delayed = Message(TOPIC, b"never", delay=timedelta(hours=1))
            assert await producer.recall((await producer.send(delayed)).recall_handle)

        async def request():
            await producer.request(Message(REQUESTS, b"?"), timeout_s=20)

        self._repeat("send", send)
        self._repeat("send in_sync_min=2", lambda: send(in_sync_min=2))
        self._repeat("transaction", transaction)
        self._repeat("recall", recall)
        self._repeat("request", request)
        self.run(self._half_messages())

    async def _half_messages(self) -> None:
        """Half messages and their ends: those of the time before a fault are ended after it."""
        halves: asyncio.Queue = asyncio.Queue()
        enough = asyncio.Event()

        async def store():
            body = self.body()
            halves.put_nowait((body, await self._producer.send_half(Message(TOPIC, body))))
            if halves.qsize() >= OPEN_HALVES:
                enough.set()

        async def end():
            body, half = await halves.get()
            await self._producer.commit(half)
            self.stored.add(body)

        self._repeat("send half", store)
        await enough.wait()
        self._repeat("commit half", end)

    async def _receives(self, stack: AsyncExitStack) -> None:
        consumer = await stack.enter_async_context(
            ReceiveConsumer(
                self._servers,
                group="receivers",
                subscriptions={TOPIC: "*"},
                invisible_s=INVISIBLE_S,
            )
        )
        stock: asyncio.Queue = asyncio.Queue()

        async def receive():
            messages = []
            while not messages:
                messages = await consumer.receive_batch(8, timeout_s=10)
            for message in messages:
                stock.put_nowait(message)

        async def ack():
            await consumer.ack(await stock.get())

        async def extend():
            message = await stock.get()
            stock.put_nowait(message)
            await consumer.extend(message, seconds=INVISIBLE_S)

        async def nack():
            await consumer.nack(await stock.get(), delay_s=30)

        for name, call in (
            ("receive", receive),
            ("ack", ack),
            ("change invisibility", extend),
            ("nack", nack),
        ):
            self._repeat(name, call)

    async def _reads(self, stack: AsyncExitStack) -> None:
        reader = await stack.enter_async_context(QueueReader(self._servers))
        client = await stack.enter_async_context(ClusterClient(self._servers))
        sent = await self._producer.send(Message(TOPIC, b"found", keys=["key"]))
        queue = sent.message_queue

        async def read_range():
            _, end = (await reader.bounds(TOPIC))[queue]
            count = 0
            async for columns in reader.read_range(queue, max(0, end - 50), end):
                count += len(columns)
            assert count

        async def query():
            found = [each.body async for each in reader.query_messages(TOPIC, key="key")]
            assert found == [b"found"]

        for name, call in (
            ("bounds", lambda: reader.bounds(TOPIC)),
            ("offsets at a time", lambda: reader.offsets_at(TOPIC, datetime.now(UTC))),
            ("read a range", read_range),
            ("query by key", query),
            ("store offsets", lambda: reader.store_offsets("stored", {queue: 1})),
            ("stored offsets", lambda: reader.stored_offsets("stored", TOPIC)),
            ("admin: lag", lambda: client.consumer_lag("pullers")),
            ("admin: groups", client.list_groups),
            ("admin: members", lambda: client.list_members("pullers")),
        ):
            self._repeat(name, call)

    async def _pulls(self, stack: AsyncExitStack) -> None:
        consumer = await stack.enter_async_context(
            PullConsumer(
                self._servers,
                group="pullers",
                subscriptions={TOPIC: "*"},
                start="earliest",
                auto_commit=False,
            )
        )
        await consumer.wait_assigned()
        arrived = self._table.record("pull")

        async def poll():
            while True:
                if await consumer.poll(timeout_s=5):
                    arrived.succeeded()
                    await self._table.make("commit offsets", consumer.commit)

        async def committed():
            queues = consumer.assignment
            if queues:
                await consumer.committed(min(queues))

        self._table.record("commit offsets")
        self.run(poll())
        self._repeat("committed offset", committed)

    async def _pushes(self, stack: AsyncExitStack) -> None:
        pushed, locked = self._table.record("push"), self._table.record("push in order (locks)")

        async def take(messages):
            self.pushed.update(bytes(message.body) for message in messages)
            pushed.succeeded()

        async def take_in_order(_messages):
            locked.succeeded()

        async def reply(messages):
            for message in messages:
                try:
                    await self._producer.reply(message, b"!")
                except ArianeError as error:
                    self._table.record("reply").refused(error)
                else:
                    self._table.record("reply").succeeded()

        for group, topic, listener, ordered in (
            ("pushers", TOPIC, take, False),
            ("in-order", TOPIC, take_in_order, True),
            ("repliers", REQUESTS, reply, False),
        ):
            consumer = PushConsumer(
                self._servers,
                group=group,
                subscriptions={topic: "*"},
                listener=listener,
                start="earliest",
                ordered=ordered,
            )
            await stack.enter_async_context(consumer)
            await consumer.wait_assigned()

    # Others.

    async def spark(self, folder: Path) -> None:
        """Follow a streaming query until it is cancelled."""
        record = self._table.record("spark stream")
        command = (sys.executable, str(QUERY), self._servers, TOPIC, str(folder))
        with (folder / "spark.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        try:
            async for line in process.stdout:
                said = json.loads(line)
                if "ended" in said:
                    record.refused(said["ended"])
                elif said["rows"]:
                    record.succeeded()
            raise AssertionError("the streaming query's process ended")
        finally:
            process.kill()
            await process.wait()

    def language(self, worker) -> None:
        """Have the client of another language call; the worker is connected."""
        name = worker.language

        async def ask(do, **words):
            return await asyncio.to_thread(worker.ask, do, topic=TOPIC, **words)

        async def send():
            body = self.body()
            await ask("send", messages=[wire(body)])
            self.stored.add(body)

        async def transaction():
            body = self.body()
            begun = await ask("begin", group=f"{name}-tellers", messages=[wire(body)])
            await ask("commit", numbers=[begun["number"]])
            self.stored.add(body)

        async def receive():
            got = []
            while not got:
                got = await ask("receive", group=f"{name}-group", wait_ms=8000)
            numbers = [each["number"] for each in got]
            await self._table.make(f"{name}: ack", lambda: ask("ack", numbers=numbers))

        self._table.record(f"{name}: ack")
        self._repeat(f"{name}: send", send)
        self._repeat(f"{name}: transaction", transaction)
        self._repeat(f"{name}: receive", receive)


def wire(body: bytes) -> dict[str, object]:
    """A message as a worker takes it."""
    return {
        "topic": TOPIC,
        "body": base64.b64encode(body).decode(),
        "tag": "",
        "keys": [],
        "group": "",
        "properties": {},
        "id": "",
    }


async def bodies_in(reader: QueueReader) -> set[bytes]:
    """All bodies of the topic."""
    found: set[bytes] = set()
    for queue, (begin, end) in (await reader.bounds(TOPIC)).items():
        async for columns in reader.read_range(queue, begin, end):
            found.update(bytes(body) for body in columns.bodies())
    return found


async def until_all(wanted: Iterable[bytes], found: set[bytes], within_s: float) -> set[bytes]:
    """What is still missing after a time, or nothing as soon as nothing is."""
    end_s = time.monotonic() + within_s
    while (missing := set(wanted) - found) and time.monotonic() < end_s:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.2)
    return missing
