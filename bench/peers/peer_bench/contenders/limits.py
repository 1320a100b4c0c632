"""What the machine can do with the same bytes: copying, loopback, bare gRPC calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from peer_bench.contender import DriverContender
from peer_bench.drivers import Driver
from peer_bench.peers import Part, Peer, Target
from peer_bench.places import DRIVERS_PATH

_NAMES: Final = {
    "copy": "copying the bytes",
    "loopback": "the bytes through a socket",
    "grpc": "the bytes as bare gRPC calls",
}
_GRPC_TARGET: Final = Target(0.6, 0.85)


@contextmanager
def running(data_path: Path, *, kind: str) -> Iterator[DriverContender]:
    """Run one of them."""
    command = [sys.executable, str(DRIVERS_PATH / "limit_driver.py"), kind]
    with Driver(kind, command, data_path / "driver.log") as driver:
        # The other end is a child of the driver: both stand in the client's usage.
        settings = {"in flight": "as ours" if kind == "grpc" else "1"}
        versions = {"grpcio": version("grpcio")} if kind == "grpc" else {}
        yield DriverContender(_NAMES[kind], driver, [], settings=settings, versions=versions)


def _peer(kind: str) -> Peer:
    target = _GRPC_TARGET if kind == "grpc" else Target()
    part = Part(target, in_flight=1, consume=None)
    return Peer(
        key=kind, running=partial(running, kind=kind), parts={"batches": part, "columns": part}
    )


PEERS: Final = tuple(_peer(kind) for kind in _NAMES)
