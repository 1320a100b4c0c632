"""Redis Streams: Debian's server with an append-only file, and redis-py with hiredis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ariane_testkit.free_ports import free_port
from peer_bench.contender import DriverContender
from peer_bench.drivers import Driver
from peer_bench.fetched.debian import libraries_of, unpacked
from peer_bench.fetched.python_clients import client_python, client_versions
from peer_bench.peers import Part, Peer, Target
from peer_bench.places import DRIVERS_PATH
from peer_bench.servers import server, version_said

_PACKAGES: Final = ("redis-server", "redis-tools", "liblzf1", "libjemalloc2", "libatomic1")


@contextmanager
def running(data_path: Path) -> Iterator[DriverContender]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    root, python, port = unpacked("redis", _PACKAGES), client_python(), free_port()
    environment = libraries_of(root)
    program = str(root / "usr/bin/redis-server")
    found = version_said([program, "--version"], environment)
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data_path)]
    command += ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    with server("redis", command, port=port, home=data_path, environment=environment) as pid:
        client = [python, str(DRIVERS_PATH / "redis_driver.py"), str(port)]
        with Driver("redis-py", client, data_path / "driver.log") as driver:
            yield DriverContender(
                f"redis-py to Redis Streams {found}",
                driver,
                [pid],
                settings={"flush": "async, every second", "appendonly": "yes", "save": ""},
                versions={"redis-server": found, **client_versions("redis", "hiredis")},
            )


PEER: Final = Peer(
    key="redis",
    running=running,
    parts={
        "batches": Part(
            Target(1.5, 3.0), in_flight=2, consumed={"listener": Target(1.5, 3.0)}, quick=True
        )
    },
)
"""Its entries live in memory. Two pipelines keep its server busy; more wait for one interpreter."""
