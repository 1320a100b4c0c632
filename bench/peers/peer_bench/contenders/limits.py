"""What the machine can do with the same bytes: copying, loopback, bare gRPC calls, flushing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from peer_bench.contender import DriverContender
from peer_bench.contenders import ours
from peer_bench.contenders.ourselves import SYNC_TITLE
from peer_bench.drivers import Driver
from peer_bench.peers import NOBODY_SAID, Part, Peer, Target
from peer_bench.places import DRIVERS_PATH

_NAMES: Final = {
    "copy": "copying the bytes",
    "loopback": "the bytes through a socket",
    "grpc": "the bytes as bare gRPC calls",
    "flush": "writing and flushing the bytes",
}
_GRPC_TARGET: Final = Target(0.6, 0.85)


@contextmanager
def running(data_path: Path, *, kind: str) -> Iterator[DriverContender]:
    """Run one of them."""
    command = [sys.executable, str(DRIVERS_PATH / "limit_driver.py"), kind, str(data_path)]
    with Driver(kind, command, data_path / "driver.log") as driver:
        # The other end is a child of the driver: both stand in the client's usage.
        settings = {"blocks in flight": "1", "calls of single messages in flight": "as ours"}
        versions = {"grpcio": version("grpcio")} if kind == "grpc" else {}
        yield DriverContender(_NAMES[kind], driver, [], settings=settings, versions=versions)


def _peer(kind: str, parts: dict[str, Part]) -> Peer:
    return Peer(key=kind, running=partial(running, kind=kind), parts=parts, start_s=4.0)


def _blocks(target: Target = NOBODY_SAID, *, quick: bool = False) -> dict[str, Part]:
    """Whole batches, one at a time."""
    part = Part(target, in_flight=1, consume=None, quick=quick)
    return {"batches": part, "columns": part}


_CALLS: Final = Part(consume=None)
"""A call for each message, as many at the same time."""

PEERS: Final = (
    _peer("copy", _blocks()),
    _peer("loopback", _blocks()),
    _peer("grpc", {**_blocks(_GRPC_TARGET), "singles-64": _CALLS}),
    Peer(
        key="flush",
        running=partial(running, kind="flush"),
        ours=partial(ours.running, flush_mode="sync"),
        parts={"singles-64": Part(consume=None, title=SYNC_TITLE)},
        start_s=4.0,
    ),
)
