"""Apache Kafka's server: one process that is broker and controller, flushed by the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ariane_testkit.free_ports import free_port
from peer_bench.fetched.maven import class_path
from peer_bench.processes.tools import run_tool
from peer_bench.servers import server

VERSION: Final = "4.4.0"
PARTITIONS: Final = 4
HEAP: Final = "2g"
FORMAT_S_MAX: Final = 60
CLUSTER_ID: Final = "YXJpYW5lLWJlbmNoLTAwMQ"


@contextmanager
def kafka_server(home: Path) -> Iterator[tuple[str, int]]:
    """Run it; yields where it is reached, and its process id.

    Raises:
        PeerUnavailable: It cannot be had or started here.
        ToolFailed: Its folder cannot be made.
    """
    jars = class_path("kafka")
    home.mkdir(parents=True, exist_ok=True)
    port, controller_port = free_port(), free_port()
    address = f"127.0.0.1:{port}"
    settings = home / "server.properties"
    _write_settings(settings, home / "log", address, f"127.0.0.1:{controller_port}")
    java = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", jars]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
    run_tool("formatting Kafka's folder", [*formatting, "-c", str(settings)], FORMAT_S_MAX)
    with server("kafka", [*java, "kafka.Kafka", str(settings)], port=port, home=home) as pid:
        yield address, pid


def _write_settings(path: Path, log_path: Path, address: str, controller: str) -> None:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_path,
        "num.partitions": PARTITIONS,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # The default of 3 s is for groups of many; the clock of a consumer runs from its first
        # message anyway.
        "group.initial.rebalance.delay.ms": 0,
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
