"""The clock of a broker's machine jumps by 15 days and is right again; or the disk fills up."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from moved_clock_broker import VARIABLE, ClockHand

from ariane_admin.cli import main
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    QueueReader,
)
from ariane_sdk.errors import MessagesFailed
from ariane_servicekit.running.processes import ServiceProcess

DAYS_MS = 15 * 24 * 3_600_000
SMALL_STORE = (
    *("--segment-bytes", str(1 << 20), "--message-bytes-max", str(1 << 14)),
    *("--consume-queue-entries", "1000", "--index-slots", "1000", "--index-items", "4000"),
    # Whether messages go is a matter of their age alone, at any hour.
    *("--disk-clean-ratio", "0.000001", "--disk-force-ratio", "0.98"),
    *("--disk-refuse-ratio", "0.99"),
    *("--grace-s", "0.1"),
    *("--delay-levels", " ".join(["1s"] * 18)),
)
BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, offset_store_interval_s=0.2)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Machine:
    """A name server, and a broker on a clock that can be set."""

    def __init__(self, folder: Path, flags: tuple[str, ...]) -> None:
        logs = folder / "logs"
        self.hand = ClockHand(folder / "clock")
        self.store = folder / "store"
        self.log_path = logs / "broker.log"
        arguments = ("--data-path", str(folder / "namesrv"))
        self.name_server = ServiceProcess(
            "namesrv", "ariane_namesrv", arguments, logs / "namesrv.log"
        )
        self.flags = flags

    async def start(self) -> None:
        await self.name_server.start()
        arguments = (
            *("--store-path", str(self.store), "--broker-name", "broker-a"),
            *("--name-servers", self.name_servers, *self.flags),
        )
        self.broker = ServiceProcess("broker", "moved_clock_broker", arguments, self.log_path)
        await self.broker.start()

    @property
    def name_servers(self) -> str:
        return self.name_server.address

    def said(self, event: str) -> list[dict]:
        """What the broker has said of something, of all its starts."""
        lines = self.log_path.read_text().splitlines()
        rows = (json.loads(line) for line in lines if line.startswith("{"))
        return [row for row in rows if row["event"] == event]

    async def has_said(self, event: str, count: int = 1) -> list[dict]:
        async with asyncio.timeout(60):
            while len(found := self.said(event)) < count:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        return found


@pytest.fixture
def machine(tmp_path, monkeypatch):
    @asynccontextmanager
    async def machine(*flags):
        made = Machine(tmp_path, (*SMALL_STORE, *flags))
        monkeypatch.setenv(VARIABLE, str(made.hand.path))
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        try:
            await made.start()
            yield made
        finally:
            for process in (made.broker, made.name_server):
                if process.started:
                    await process.stop()

    return machine


@pytest.fixture
def doctor(capfd):
    async def doctor(machine):
        capfd.readouterr()
        words = ["doctor", "--name-servers", machine.name_servers, "-o", "json"]
        status = await asyncio.to_thread(main, words)
        return status, json.loads(capfd.readouterr().out)

    return doctor


def numbered(word, count):
    return [f"{word}{number}".encode() for number in range(count)]


async def send_plenty(producer):
    """Fill some segments; returns the bodies."""
    bodies = [b"%d" % number + b"." * 12_000 for number in range(400)]
    for first in range(0, len(bodies), 50):
        sent = bodies[first : first + 50]
        await producer.send_batch([Message("plenty", body) for body in sent])
    return bodies


async def bodies(name_servers, topic):
    """What a topic has, in the order of its one queue."""
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += [bytes(body) for body in columns.bodies()]
    return found


async def arrived(name_servers, topic, count):
    async with asyncio.timeout(60):
        while len(found := await bodies(name_servers, topic)) < count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    return found


async def test_a_blip_deletes_nothing_and_holds_up_nothing(machine, doctor):
    async with machine() as one, Producer(one.name_servers) as producer:
        names = one.name_servers
        async with ClusterClient(names) as client:
            for topic in ("plenty", "later", "failing"):
                await client.create_topic(topic, queue_count=1)
        kept = await send_plenty(producer)

        one.hand.ahead_ms = DAYS_MS
        await producer.send(Message("plenty", b"blip"))
        await producer.send(Message("later", b"blip", delay_level=1))
        await one.has_said("clock_doubted")
        status, findings = await doctor(one)
        assert status == 0
        assert any("its clock has jumped 15.0 days ahead" in each["finding"] for each in findings)
        one.hand.ahead_ms = 0
        jumps = await one.has_said("clock_jumped", 2)
        assert [round(jump["jump_s"] / 86_400) for jump in jumps] == [15, -15]
        await one.has_said("clock_believed")

        await producer.send_batch(
            [Message("later", body, delay_level=1) for body in numbered("after", 20)]
        )
        assert sorted(await arrived(names, "later", 21)) == sorted(
            [b"blip", *numbered("after", 20)]
        )
        tries = []

        async def listen(messages):
            tries.extend(message.attempts for message in messages)
            if messages[0].attempts == 0:
                raise MessagesFailed(messages, "not the first time")

        async with PushConsumer(
            names,
            group="billing",
            subscriptions={"failing": "*"},
            listener=listen,
            start="earliest",
            settings=BRISK,
        ):
            await producer.send(Message("failing", b"once"))
            async with asyncio.timeout(60):
                while tries != [0, 1]:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)

        # Nor after a crash, which files anew what waits.
        await producer.send(Message("later", b"crash", delay_level=1))
        one.broker.kill()
        await one.broker.restart()
        await producer.send(Message("later", b"end", delay_level=1))
        found = await arrived(names, "later", 23)
        assert sorted(found[21:]) == [b"crash", b"end"]

        status, findings = await doctor(one)
        assert any("store times are 15.0 days ahead" in each["finding"] for each in findings)
        assert await bodies(names, "plenty") == [*kept, b"blip"]
        assert one.said("old_messages_deleted") == one.said("messages_deleted_early") == []


async def test_a_start_under_a_clock_that_is_ahead_deletes_nothing(machine):
    """The process was not there when it jumped: the files of the store were."""
    async with machine() as one, Producer(one.name_servers) as producer:
        async with ClusterClient(one.name_servers) as client:
            await client.create_topic("plenty", queue_count=1)
        kept = await send_plenty(producer)
        await one.broker.stop()
        one.hand.ahead_ms = DAYS_MS
        await one.broker.start()
        (doubt,) = await one.has_said("clock_doubted")
        assert doubt["ahead_s"] == pytest.approx(timedelta(days=15).total_seconds(), abs=60)
        assert await bodies(one.name_servers, "plenty") == kept
        assert one.said("old_messages_deleted") == []


async def test_what_goes_for_lack_of_space_is_named(machine, doctor):
    full = ("--disk-force-ratio", "0.000002")
    async with machine(*full) as one, Producer(one.name_servers) as producer:
        async with ClusterClient(one.name_servers) as client:
            await client.create_topic("plenty", queue_count=1)
        await send_plenty(producer)
        await one.has_said("messages_deleted_early")
        status, findings = await doctor(one)
        (finding,) = [each for each in findings if "before their retention time" in each["finding"]]
        assert (status, finding["severity"]) == (1, "error")
        assert " of plenty" in finding["finding"]
        async with QueueReader(one.name_servers) as reader:
            ((begin, _),) = (await reader.bounds("plenty")).values()
        told = one.said("messages_deleted_early")
        assert sum(each["message_count"] for each in told) >= begin > 0
        assert told[-1]["queues"]["plenty/0"].endswith(f" to {begin - 1}")
        assert told[0]["stored_from_ms"] <= told[-1]["stored_until_ms"]
