"""Apache Kafka by its own tools, ``ProducerPerformance`` and ``ConsumerPerformance``.

Both run within one process that stays warm. Bodies are drawn by the tool from a file of 4096 texts,
because it would otherwise spend more on making them than on sending them; so there is no checksum,
and what was consumed is known by its count and its bytes.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from peer_bench.bodies import POOL_SIZE
from peer_bench.contender import lost_of
from peer_bench.contenders.kafka_server import HEAP, PARTITIONS, VERSION, kafka_server
from peer_bench.drivers import Driver
from peer_bench.errors import DriverFailed
from peer_bench.fetched.maven import driver_path, java_version
from peer_bench.loads import Leg, Load
from peer_bench.peers import Part, Peer, Target
from peer_bench.processes.usage import between, usage_of

CLIENT_HEAP: Final = "2g"
BATCH_BYTES: Final = 1_000_000
_TOOLS: Final = "org.apache.kafka.tools"
_SENT: Final = re.compile(
    r"^(?P<count>\d+) records sent, (?P<rate>[\d.]+) records/sec.*99\.9th\.$", re.MULTILINE
)
_MEBIBYTE: Final = 1 << 20
_COLUMNS: Final = 10


def sent_in(out: str) -> Leg:
    """What ``ProducerPerformance`` says at its end.

    Raises:
        DriverFailed: It says nothing of the kind.
    """
    found = list(_SENT.finditer(out))
    if not found:
        raise DriverFailed(f"no figures in what Kafka's producer tool said: {out[-500:]}")
    count, rate = int(found[-1]["count"]), float(found[-1]["rate"])
    return Leg(count=count, seconds=count / rate)


def consumed_in(out: str) -> tuple[Leg, float]:
    """What ``ConsumerPerformance`` says: the leg without the time to join, and its bytes.

    Raises:
        DriverFailed: It says nothing of the kind.
    """
    lines = [line for line in csv.reader(out.splitlines()) if len(line) == _COLUMNS]
    if not lines or not lines[-1][4].strip().isdigit():
        raise DriverFailed(f"no figures in what Kafka's consumer tool said: {out[-500:]}")
    cells = [cell.strip() for cell in lines[-1]]
    megabytes, count, fetch_ms = float(cells[2]), int(cells[4]), int(cells[7])
    return Leg(count=count, seconds=max(fetch_ms, 1) / 1000), megabytes * _MEBIBYTE


class KafkaTools:
    """Kafka, driven by its tools."""

    def __init__(self, driver: Driver, address: str, server_pid: int, home: Path) -> None:
        self.name = f"Kafka {VERSION}, its tools"
        self.versions = {"kafka": VERSION, "java": java_version()}
        self.settings: dict[str, Any] = {
            "flush": "async",
            "partitions": PARTITIONS,
            "acks": "all",
            "batch.size": BATCH_BYTES,
            "linger.ms": 5,
            "server heap": HEAP,
            "client heap": CLIENT_HEAP,
        }
        self._driver = driver
        self._address = address
        self._server_pid = server_pid
        self._home = home

    def produce(self, load: Load) -> Leg:
        """Send; the tool chooses how many requests are in flight."""
        self._run("TopicCommand", "--create", "--topic", load.topic)
        arguments = ["--topic", load.topic, "--num-records", str(load.count), "--throughput", "-1"]
        arguments += ["--payload-file", str(self._texts(load.body_bytes)), "--command-property"]
        arguments += [f"bootstrap.servers={self._address}", f"batch.size={BATCH_BYTES}"]
        arguments += ["linger.ms=5", "acks=all"]
        out, leg = self._measured("ProducerPerformance", arguments)
        said = sent_in(out)
        return replace(
            leg,
            count=said.count,
            seconds=said.seconds,
            failures=load.count - said.count,
            # With one replica, what is acknowledged can be consumed.
            ready_s=said.seconds,
        )

    def consume(self, load: Load) -> Leg:
        """Consume all; lost is what the count or the bytes lack."""
        arguments = ["--topic", load.topic, "--num-records", str(load.count)]
        arguments += ["--bootstrap-server", self._address, "--timeout", "20000", "--hide-header"]
        out, leg = self._measured("ConsumerPerformance", arguments)
        said, size_bytes = consumed_in(out)
        whole = replace(leg, count=said.count, seconds=said.seconds)
        lacking = round(load.count - size_bytes / load.body_bytes)
        return replace(whole, lost=max(lost_of(whole, load), abs(lacking)))

    def exchange(self, load: Load) -> Leg:
        """Its tool for latency waits for each message, so it is not asked."""
        raise DriverFailed(f"Kafka's tools know no schedule: {load}")

    def _measured(self, tool: str, arguments: list[str]) -> tuple[str, Leg]:
        client, server = usage_of([self._driver.pid]), usage_of([self._server_pid])
        out = self._run(tool, *arguments, bootstrap=False)
        return out, Leg(
            count=0,
            seconds=1.0,
            client=between(client, usage_of([self._driver.pid])),
            server=between(server, usage_of([self._server_pid])),
        )

    def _run(self, tool: str, *arguments: str, bootstrap: bool = True) -> str:
        words = ["--bootstrap-server", self._address] if bootstrap else []
        answer = self._driver.ask(f"{_TOOLS}.{tool}", arguments=[*words, *arguments])
        if answer["status"] != 0:
            raise DriverFailed(f"Kafka's {tool} ended with {answer['status']}: {answer['out']}")
        return str(answer["out"])

    def _texts(self, body_bytes: int) -> Path:
        """A file of texts of one size, a line each."""
        path = self._home / f"texts-{body_bytes}"
        if not path.exists():
            letters = random.Random(7)
            lines = (
                "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=body_bytes))
                for _ in range(POOL_SIZE)
            )
            path.write_text("\n".join(lines))
        return path


@contextmanager
def running(data_path: Path) -> Iterator[KafkaTools]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    with kafka_server(data_path) as (address, pid):
        command = ["java", f"-Xms{CLIENT_HEAP}", f"-Xmx{CLIENT_HEAP}"]
        command += ["-cp", driver_path("kafka"), "RepeatedTool"]
        with Driver("Kafka's tools", command, data_path / "driver.log") as driver:
            yield KafkaTools(driver, address, pid, data_path)


PEER: Final = Peer(
    key="kafka",
    running=running,
    warm_up_s=20.0,
    start_s=10.0,
    parts={
        "sustained-batches": Part(Target(1.0, 2.0), consume="chunks"),
        "sustained-columns": Part(Target(1.0, 2.0), consume="chunks"),
        "batches": Part(
            Target(1.0, 2.0), consume="chunks", consumed={"chunks": Target(0.6, 1.0)}, quick=True
        ),
        "batches-4k": Part(consume="chunks", consumed={"chunks": Target()}),
        # The consumer tool has one way, a call for each batch that it polled.
        "batches-128": Part(consume="chunks", consumed={"listener": Target()}),
        "columns-1m": Part(consume="chunks"),
        "columns": Part(
            Target(1.0, 2.0), consume="chunks", consumed={"chunks": Target(0.6, 1.0)}, quick=True
        ),
    },
)
