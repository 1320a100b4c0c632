"""ArianeMQ: a name server, a broker, and the Python client; all as they are by default."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from ariane_servicekit.processes import LocalCluster
from peer_bench.contender import DriverContender
from peer_bench.drivers import Driver
from peer_bench.places import DRIVERS_PATH

NAME = "ArianeMQ"
CALLS_IN_FLIGHT = 1
_LIBRARIES = ("grpcio", "numpy", "pyarrow", "protobuf")


@contextmanager
def running(
    data_path: Path,
    *,
    calls_in_flight: int = CALLS_IN_FLIGHT,
    flush_mode: str = "async",
    name: str = NAME,
) -> Iterator[DriverContender]:
    """Run it in a folder that is its own."""
    with LocalCluster(data_path, flush_mode=flush_mode) as cluster:
        command = [sys.executable, str(DRIVERS_PATH / "ariane_driver.py")]
        command += [cluster.name_servers, str(calls_in_flight)]
        with Driver(NAME, command, data_path / "driver.log") as driver:
            yield DriverContender(
                name,
                driver,
                [process.pid for process in cluster.processes],
                settings={
                    "flush": flush_mode,
                    "queues": 4,
                    "calls in flight": calls_in_flight,
                    "listener batch": 32,
                },
                versions={
                    "python": platform.python_version(),
                    **{name: version(name) for name in _LIBRARIES},
                },
            )
