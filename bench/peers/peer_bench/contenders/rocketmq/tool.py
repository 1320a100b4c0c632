"""Apache RocketMQ by its own benchmark tool, ``BatchProducer``, as its distribution has it.

The tool sends one body again and again, for as long as it runs, and tells each second how many
messages a second were acknowledged in the last nine: that is its figure here. What it sends is not
known again, so it is counted by what the broker says. Each leg has a process of its own, which is
warm before it counts.

::

    tool starts      warm-up      counted        tool is ended     all can be consumed
    |----------------------------|==============|------------------|
                                 broker asked   broker asked, and again until nothing is behind
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from peer_bench.contenders.rocketmq.rocketmq import (
    CLIENT_HEAP,
    NAME,
    SERVER_HEAP,
    VERSION,
    cluster,
)
from peer_bench.drivers import Driver
from peer_bench.errors import DriverFailed
from peer_bench.fetched.maven import class_path, java_version
from peer_bench.loads import Leg, Load
from peer_bench.peers import Part, Peer, Target
from peer_bench.processes.process_group import ProcessGroup
from peer_bench.processes.usage import between, usage_of

WARM_UP_S: Final = 8.0
COUNTED_S: Final = 10.5
_STOP_S_MAX: Final = 10.0
_READY_S_MAX: Final = 240.0
_TOOL: Final = "org.apache.rocketmq.example.benchmark.BatchProducer"
_SAID: Final = re.compile(r"Send MPS: (?P<rate>\d+) .*Send Message Failed: (?P<failed>\d+)")


def sent_in(out: str) -> tuple[int, int]:
    """Messages a second in the last line of the tool, and how many had failed by then.

    Raises:
        DriverFailed: It says nothing of the kind.
    """
    found = list(_SAID.finditer(out))
    if not found or not int(found[-1]["rate"]):
        raise DriverFailed(f"no figures in what RocketMQ's tool said: {out[-500:]}")
    return int(found[-1]["rate"]), int(found[-1]["failed"])


def ready_seconds(
    counted_s: float, drained_s: float, behind_before: int, behind_after: int
) -> float:
    """Seconds that what was sent while counting took until it could be consumed.

    Args:
        counted_s: How long was counted.
        drained_s: From then until nothing was behind.
        behind_before: Bytes that could not be consumed yet when counting began.
        behind_after: The same when it ended: what came to it meanwhile has its part of the time.
    """
    grown = max(behind_after - behind_before, 0)
    return counted_s + (drained_s * grown / behind_after if grown else 0.0)


class RocketmqTool:
    """RocketMQ, driven by its tool; another client asks the broker what it has."""

    def __init__(
        self, driver: Driver, name_server: str, server_pids: Sequence[int], home: Path
    ) -> None:
        self.name = f"{NAME} {VERSION}, its BatchProducer"
        self.versions = {"rocketmq": VERSION, "java": java_version()}
        self.settings: dict[str, Any] = {
            "flush": "async",
            "queues": 4,
            "server heap": SERVER_HEAP,
            "client heap": CLIENT_HEAP,
            "bodies": "the same one in all messages",
        }
        self._driver = driver
        self._name_server = name_server
        self._server_pids = tuple(server_pids)
        self._home = home

    def produce(self, load: Load) -> Leg:
        """Send for some seconds, however many are asked for."""
        self._driver.ask("prepare_produce", **load.asked())
        log_path = self._home / f"tool-{load.topic}.log"
        command = ["java", f"-Xms{CLIENT_HEAP}", f"-Xmx{CLIENT_HEAP}", f"-Duser.home={self._home}"]
        command += ["-cp", class_path("rocketmq"), _TOOL, "-n", self._name_server]
        command += ["-t", load.topic, "-w", str(load.in_flight), "-b", str(load.batch)]
        command += ["-s", str(load.body_bytes), "-ri", "1000"]
        with log_path.open("wb") as log:
            tool = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        group = ProcessGroup(tool)
        try:
            time.sleep(WARM_UP_S)
            before, begin = self._driver.ask("stored"), time.monotonic()
            client, server = usage_of([tool.pid]), usage_of(self._server_pids)
            time.sleep(COUNTED_S)
            client = between(client, usage_of([tool.pid]))
            server = between(server, usage_of(self._server_pids))
            after, counted_s = self._driver.ask("stored"), time.monotonic() - begin
        finally:
            tool.kill()
            group.end(_STOP_S_MAX)
        rate, failed = sent_in(log_path.read_text(errors="replace"))
        drained_s = self._wait_ready()
        count = after["count"] - before["count"]
        ready_s = ready_seconds(counted_s, drained_s, before["behind_bytes"], after["behind_bytes"])
        return Leg(
            count=count,
            # Its own figure is its rate.
            seconds=count / rate,
            failures=failed,
            client=client,
            server=server,
            ready_s=ready_s,
        )

    def _wait_ready(self) -> float:
        """Wait until consumers see all that is stored; seconds that it took."""
        begin = time.monotonic()
        while self._driver.ask("stored")["behind_bytes"]:
            if time.monotonic() - begin > _READY_S_MAX:
                raise DriverFailed(f"{self.name}: messages cannot be consumed yet")
            time.sleep(0.05)
        return time.monotonic() - begin

    def consume(self, load: Load) -> Leg:
        """What the tool sent is not known again."""
        raise NotImplementedError

    def exchange(self, load: Load) -> Leg:
        """The tool knows no schedule."""
        raise NotImplementedError


@contextmanager
def running(data_path: Path) -> Iterator[RocketmqTool]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    with cluster(data_path) as (driver, (name_server, _), pids):
        yield RocketmqTool(driver, name_server, pids, data_path)


PEER: Final = Peer(
    key="rocketmq-tool",
    running=running,
    start_s=12.0,
    # Each leg has a warm-up of its own; one round before makes the servers warm.
    warm_up_s=4.0,
    parts={
        "sustained-batches": Part(Target(1.0, 1.5), in_flight=8, consume=None),
        "sustained-batches-128": Part(Target(0.8, 1.0), in_flight=8, consume=None),
        "sustained-columns": Part(Target(0.8, 1.5), in_flight=8, shape="batches", consume=None),
    },
)
