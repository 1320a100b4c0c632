"""Apache RocketMQ: name server and broker, and its Java client with the loops of its tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ariane_testkit.free_ports import free_port
from peer_bench.contender import DriverContender
from peer_bench.drivers import Driver
from peer_bench.maven import class_path, driver_path, java_version
from peer_bench.peers import Part, Peer, Target
from peer_bench.servers import server

NAME: Final = "RocketMQ"
VERSION: Final = "5.5.0"
SERVER_HEAP: Final = "2g"
CLIENT_HEAP: Final = "2g"
_OPENED: Final = [
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang")
    ),
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
]


@contextmanager
def running(data_path: Path, *, flush_mode: str = "async") -> Iterator[DriverContender]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    with cluster(data_path, flush_mode=flush_mode) as (driver, _, pids):
        yield DriverContender(
            f"{NAME} {VERSION}",
            driver,
            pids,
            settings={
                "flush": flush_mode,
                "queues": 4,
                "server heap": SERVER_HEAP,
                "client heap": CLIENT_HEAP,
                "listener threads": 20,
                "listener batch": "32, or 1 where a call gets a message",
                "timerPrecisionMs": 1000,
            },
            versions={"rocketmq": VERSION, "java": java_version()},
        )


@contextmanager
def cluster(
    data_path: Path, *, flush_mode: str = "async"
) -> Iterator[tuple[Driver, tuple[str, str], list[int]]]:
    """Run servers, and our driver of the Java client; yields it, addresses and ids of servers.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    jars = class_path("rocketmq")
    data_path.mkdir(parents=True, exist_ok=True)
    with servers(jars, data_path, flush_mode=flush_mode) as (addresses, pids):
        command = ["java", f"-Xms{CLIENT_HEAP}", f"-Xmx{CLIENT_HEAP}", f"-Duser.home={data_path}"]
        command += ["-cp", driver_path("rocketmq"), "RocketmqDriver", *addresses]
        with Driver(NAME, command, data_path / "driver.log") as driver:
            yield driver, addresses, pids


@contextmanager
def servers(
    jars: str, home: Path, *, flush_mode: str
) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Run the servers; yields the addresses of name server and broker, and the process ids."""
    name_port, broker_port = free_port(), free_port(4) + 2
    name_server, broker = f"127.0.0.1:{name_port}", f"127.0.0.1:{broker_port}"
    _write_settings(home / "namesrv.conf", {"listenPort": name_port})
    _write_settings(
        home / "broker.conf",
        {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-java",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": broker_port,
            "haListenPort": broker_port + 1,
            "namesrvAddr": name_server,
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "flushDiskType": "SYNC_FLUSH" if flush_mode == "sync" else "ASYNC_FLUSH",
            "diskMaxUsedSpaceRatio": 99,
        },
    )
    java = ["java", f"-Xms{SERVER_HEAP}", f"-Xmx{SERVER_HEAP}", "-XX:MaxDirectMemorySize=1g"]
    java += [*_OPENED, f"-Duser.home={home}", "-cp", jars]
    small = ["java", "-Xmx256m", *java[4:]]
    packages = "org.apache.rocketmq"
    environment = {"ROCKETMQ_HOME": str(home), "HOME": str(home)}
    with server(
        "rocketmq-namesrv",
        [*small, f"{packages}.namesrv.NamesrvStartup", "-c", str(home / "namesrv.conf")],
        port=name_port, home=home, environment=environment,
    ) as name_pid, server(
        "rocketmq-broker",
        [*java, f"{packages}.broker.BrokerStartup", "-c", str(home / "broker.conf")],
        port=broker_port, home=home, environment=environment,
    ) as broker_pid:  # fmt: skip
        yield (name_server, broker), [name_pid, broker_pid]


def _write_settings(path: Path, settings: dict[str, Any]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


PEER: Final = Peer(
    key="rocketmq",
    running=running,
    warm_up_s=20.0,
    start_s=12.0,
    parts={
        "sustained-batches": Part(Target(1.0, 1.5), in_flight=8),
        "sustained-batches-128": Part(Target(0.8, 1.0), in_flight=8),
        "sustained-columns": Part(Target(0.8, 1.5), in_flight=8, shape="batches"),
        "batches": Part(
            Target(1.0, 2.0),
            in_flight=8,
            consumed={"each": Target(1.5, 2.5), "listener": Target()},
            quick=True,
        ),
        "batches-4k": Part(in_flight=8, consumed={"listener": Target()}),
        "batches-128": Part(in_flight=8, consumed={"each": Target(), "listener": Target()}),
        "columns": Part(Target(0.8, 1.5), in_flight=8, shape="batches"),
        "singles-64": Part(Target(1.5, 2.5), in_flight=64, quick=True),
        "singles-1024": Part(Target(2.5, 4.0), in_flight=512),
        "singles-1": Part(Target(0.5, 1.0)),
        "topics-peers": Part(in_flight=512),
        "fan-out": Part(in_flight=8, consumed={"listener": Target()}),
        "latency": Part(Target(0.5, 1.0), quick=True),
        "delay": Part(),
        "transactions": Part(in_flight=64),
    },
)
"""Its clients block a thread for each send: 1,024 in flight are 512 threads, its best."""
