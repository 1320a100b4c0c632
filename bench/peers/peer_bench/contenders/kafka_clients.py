"""Apache Kafka by clients of ours to drive: Java, confluent-kafka (librdkafka) and aiokafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from peer_bench.contender import DriverContender
from peer_bench.contenders.kafka_server import HEAP, PARTITIONS, VERSION, kafka_server
from peer_bench.drivers import Driver
from peer_bench.fetched.maven import driver_path, java_version
from peer_bench.fetched.python_clients import client_python, client_versions
from peer_bench.peers import Part, Peer, Target
from peer_bench.places import DRIVERS_PATH


@contextmanager
def running(data_path: Path, *, client: str, linger_ms: int) -> Iterator[DriverContender]:
    """Run Kafka and one client, in a folder of their own.

    Raises:
        PeerUnavailable: They cannot be had or started here.
    """
    python = client_python()
    with kafka_server(data_path) as (address, pid):
        name = client.partition("-")[0]
        command = [python, str(DRIVERS_PATH / f"{name}_driver.py"), address]
        with Driver(client, command, data_path / "driver.log") as driver:
            yield DriverContender(
                f"{client} to Kafka {VERSION}",
                driver,
                [pid],
                settings={
                    "flush": "async",
                    "partitions": PARTITIONS,
                    "acks": "all",
                    "batch.size": 1_000_000,
                    "linger.ms": linger_ms,
                    "server heap": HEAP,
                },
                versions={"kafka": VERSION, "java": java_version(), **client_versions(client)},
            )


@contextmanager
def running_java(data_path: Path) -> Iterator[DriverContender]:
    """Run Kafka and its Java client, in a folder of their own.

    Raises:
        PeerUnavailable: They cannot be had or started here.
    """
    with kafka_server(data_path) as (address, pid):
        command = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", driver_path("kafka")]
        with Driver(
            "Kafka's Java client", [*command, "KafkaDriver", address], data_path / "driver.log"
        ) as driver:
            yield DriverContender(
                f"Kafka {VERSION}",
                driver,
                [pid],
                settings={
                    "flush": "async",
                    "partitions": PARTITIONS,
                    "acks": "all",
                    "linger.ms": 0,
                    "server heap": HEAP,
                    "client heap": HEAP,
                },
                versions={"kafka": VERSION, "java": java_version()},
            )


JAVA: Final = Peer(
    key="kafka-java",
    running=running_java,
    warm_up_s=20.0,
    start_s=10.0,
    parts={"latency": Part(Target(0.5, 1.0), quick=True)},
)
CONFLUENT: Final = Peer(
    key="confluent",
    running=partial(running, client="confluent-kafka", linger_ms=5),
    warm_up_s=10.0,
    start_s=8.0,
    parts={"batches": Part(Target(0.8, 1.5), consumed={"listener": Target()}, quick=True)},
)
AIOKAFKA: Final = Peer(
    key="aiokafka",
    running=partial(running, client="aiokafka", linger_ms=0),
    warm_up_s=10.0,
    start_s=10.0,
    parts={
        "batches": Part(
            Target(2.0, 4.0), consumed={"each": Target(1.3, 2.0), "listener": Target()}
        ),
        "singles-64": Part(Target(1.0, 1.6)),
        "singles-1": Part(Target(0.5, 1.0)),
        "topics-peers": Part(),
    },
)
