"""Apache RocketMQ: name server and broker, and its Java client with the loops of its tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ariane_testkit.free_ports import free_port
from peer_bench.contender import DriverContender
from peer_bench.contenders import ours
from peer_bench.drivers import Driver
from peer_bench.fetched.maven import class_path, driver_path, java_version
from peer_bench.peers import Part, Peer, Target
from peer_bench.servers import server

NAME: Final = "RocketMQ"
VERSION: Final = "5.5.0"
SERVER_HEAP: Final = "2g"
CLIENT_HEAP: Final = "2g"
RECEIVING: Final = {"receivers": 4, "popBatchNums": "32, its most", "serialize type": "JSON"}
_OPENED: Final = [
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang")
    ),
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
]


@contextmanager
def running(
    data_path: Path, *, flush_mode: str = "async", replicated: bool = False, receiving: bool = False
) -> Iterator[DriverContender]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    shape = {"replicated": replicated, "receiving": receiving}
    with cluster(data_path, flush_mode=flush_mode, **shape) as (driver, _, pids):
        yield DriverContender(
            f"{NAME} {VERSION}" + ", SYNC_MASTER" * replicated + ", POP" * receiving,
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
                **({"replicas": 1, "inSyncReplicas": 2} if replicated else {}),
                **(RECEIVING if receiving else {}),
            },
            versions={"rocketmq": VERSION, "java": java_version()},
        )


@contextmanager
def cluster(
    data_path: Path, *, flush_mode: str = "async", replicated: bool = False, receiving: bool = False
) -> Iterator[tuple[Driver, tuple[str, str], list[int]]]:
    """Run servers, and our driver of the Java client; yields it, addresses and ids of servers.

    A driver that receives speaks JSON, the client's default: the form of RocketMQ's benchmark tools
    has 16 bits for the number of a request, and POP is request 200050.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    jars = class_path("rocketmq")
    data_path.mkdir(parents=True, exist_ok=True)
    with (
        servers(jars, data_path, flush_mode=flush_mode, replicated=replicated) as (addresses, pids),
        driver_of(data_path, *addresses, json=receiving) as driver,
    ):
        yield driver, addresses, pids


def driver_of(home: Path, name_server: str, broker: str, *, json: bool = False) -> Driver:
    """Our driver of the Java client.

    Raises:
        PeerUnavailable: It cannot be had here.
    """
    command = ["java", f"-Xms{CLIENT_HEAP}", f"-Xmx{CLIENT_HEAP}", f"-Duser.home={home}"]
    command += ["-Drocketmq.serialize.type=JSON"] if json else []
    command += ["-cp", driver_path("rocketmq"), "RocketmqDriver", name_server, broker]
    return Driver(NAME, command, home / "driver.log")


@contextmanager
def servers(
    jars: str,
    home: Path,
    *,
    flush_mode: str,
    replicated: bool = False,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Run the servers; yields the addresses of name server and broker, and the process ids.

    A broker that is replicated acknowledges what its replica has, too.

    Args:
        jars: The class path.
        home: Their folder; a broker goes on with the store that is there.
        flush_mode: How a broker flushes, "async" or "sync".
        replicated: Whether there is a replica.
        settings: More settings of the brokers.
    """
    name_port = free_port()
    name_server = f"127.0.0.1:{name_port}"
    write_settings(home, "namesrv", {"listenPort": name_port})
    shared = {
        "namesrvAddr": name_server,
        "flushDiskType": "SYNC_FLUSH" if flush_mode == "sync" else "ASYNC_FLUSH",
        **settings,
    }
    with ExitStack() as stack:

        def broker(name: str, settings: dict[str, Any]) -> tuple[int, int]:
            port = free_port(4) + 2
            write_settings(home, name, broker_settings(home / name, port) | settings)
            return port, stack.enter_context(broker_server(jars, home, name, port))

        pids = [stack.enter_context(name_server_server(jars, home, name_port))]
        # By default it asks for one copy, its own, and waits for nobody.
        role = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2} if replicated else {}
        port, pid = broker("broker", {**shared, **role})
        pids.append(pid)
        if replicated:
            pids.append(broker("replica", {**shared, "brokerRole": "SLAVE", "brokerId": 1})[1])
        yield (name_server, f"127.0.0.1:{port}"), pids


def name_server_server(jars: str, home: Path, port: int) -> AbstractContextManager[int]:
    """A name server with the settings of ``namesrv.conf``; yields its process id."""
    return _java_server(jars, home, "namesrv", ("-Xmx256m", "namesrv.NamesrvStartup"), port)


def broker_server(jars: str, home: Path, name: str, port: int) -> AbstractContextManager[int]:
    """A broker with the settings of ``<name>.conf``; yields its process id."""
    memory = f"-Xms{SERVER_HEAP} -Xmx{SERVER_HEAP} -XX:MaxDirectMemorySize=1g"
    return _java_server(jars, home, name, (memory, "broker.BrokerStartup"), port)


def _java_server(
    jars: str, home: Path, name: str, started: tuple[str, str], port: int
) -> AbstractContextManager[int]:
    memory, main = started
    command = ["java", *memory.split(), *_OPENED, f"-Duser.home={home}", "-cp", jars]
    command += [f"org.apache.rocketmq.{main}", "-c", str(home / f"{name}.conf")]
    environment = {"ROCKETMQ_HOME": str(home), "HOME": str(home)}
    return server(f"rocketmq-{name}", command, port=port, home=home, environment=environment)


def broker_settings(store: Path, port: int) -> dict[str, Any]:
    """What every broker is told; its port for replicas is the next one."""
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-java",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "diskMaxUsedSpaceRatio": 99,
    }


def write_settings(home: Path, name: str, settings: Mapping[str, Any]) -> None:
    """Write ``<name>.conf``."""
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    (home / f"{name}.conf").write_text(text)


PEER: Final = Peer(
    key="rocketmq",
    running=running,
    warm_up_s=20.0,
    start_s=12.0,
    parts={
        "sustained-batches": Part(Target(1.0, 1.5), in_flight=8),
        "sustained-batches-128": Part(Target(0.8, 1.0), in_flight=8),
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

REPLICATED: Final = Peer(
    key="rocketmq-replica",
    running=partial(running, replicated=True),
    ours=partial(ours.running, replicas=1),
    warm_up_s=20.0,
    start_s=20.0,
    parts={
        "batches": Part(
            Target(1.0, 2.0), in_flight=8, title="burst: explicit batches, 1 KiB, in two copies"
        ),
        "singles-64": Part(
            Target(1.0, 2.0),
            in_flight=64,
            title="single sends, 64 in flight, 1 KiB, in two copies",
        ),
    },
)
"""With a replica each: acknowledged is what both have."""

POP: Final = Peer(
    key="rocketmq-pop",
    running=partial(running, receiving=True),
    warm_up_s=20.0,
    start_s=12.0,
    parts={
        "receive": Part(
            in_flight=8, share=0.1, consume="receive", consumed={"receive": Target(1.5, 3.0)}
        ),
    },
)
"""Without owning queues: a member has one request under way, so it is four of them."""
