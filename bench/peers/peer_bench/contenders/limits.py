"""What the machine can do with the same bytes: copying, loopback, bare gRPC, flushing."""

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
from peer_bench.loads import Shape
from peer_bench.peers import NOBODY_SAID, Part, Peer, Target
from peer_bench.places import DRIVERS_PATH

LIMIT_NAMES: Final = {
    "copy": "copying the bytes",
    "loopback": "the bytes through a socket",
    "grpc": "the bytes as bare gRPC calls",
    "echo": "the bytes as a bare gRPC echo",
    "stream": "the bytes on a bare gRPC stream",
    "flush": "writing and flushing the bytes",
}
_ECHO_TARGET: Final = Target(0.6, 0.85)
"""Of batches of 256 KiB to 1 MiB; see the README."""
WARM_UP_S: Final = 1.0
LEG_S_MAX: Final = 0.6
"""There are many of them, and none drifts much: more of that time would tell no more."""


@contextmanager
def running(data_path: Path, *, kind: str) -> Iterator[DriverContender]:
    """Run one of them."""
    command = [sys.executable, str(DRIVERS_PATH / "limit_driver.py"), kind, str(data_path)]
    with Driver(kind, command, data_path / "driver.log") as driver:
        # The other end is a child of the driver: both stand in the client's usage.
        settings = {"blocks in flight": "as ours, through a socket 1; consumed: a stream a group"}
        versions = {"grpcio": version("grpcio")} if kind in {"grpc", "echo", "stream"} else {}
        yield DriverContender(LIMIT_NAMES[kind], driver, [], settings=settings, versions=versions)


def _peer(kind: str, parts: dict[str, Part]) -> Peer:
    return Peer(
        key=kind,
        running=partial(running, kind=kind),
        parts=parts,
        warm_up_s=WARM_UP_S,
        leg_s_max=LEG_S_MAX,
    )


def _blocks(*ways: Shape, sent: Target = NOBODY_SAID, quick: bool = False) -> Part:
    """Whole batches, sent and then consumed beside our ways of doing that."""
    return Part(
        sent,
        consume="chunks" if ways else None,
        consumed=dict.fromkeys(ways, NOBODY_SAID),
        quick=quick,
    )


_BYTES: Final = {"batches": _blocks("chunks"), "columns": _blocks("chunks")}
_CALLS: Final = Part(share=0.1, consume=None)
"""A call, or a request of a stream, for each message, as many at the same time."""
_SINGLES: Final = {
    **dict.fromkeys(("singles-64", "singles-1024"), _CALLS),
    "singles-1": Part(consume=None),
}

PEERS: Final = (
    _peer("copy", _BYTES),
    _peer("loopback", _BYTES),
    _peer(
        "grpc",
        {
            "batches": _blocks("each", "listener", "chunks"),
            "columns": _blocks("chunks"),
            "batches-4k": _blocks("listener", "chunks"),
            "batches-128": _blocks("each", "listener"),
            "columns-256k": _blocks(),
            "columns-1m": _blocks(quick=True),
            **_SINGLES,
            "fan-out": _blocks("listener"),
            "transactions": _CALLS,
        },
    ),
    _peer(
        "echo",
        {
            "batches": _blocks(sent=_ECHO_TARGET, quick=True),
            "columns-256k": _blocks(sent=_ECHO_TARGET),
            "columns-1m": _blocks(sent=_ECHO_TARGET),
        },
    ),
    _peer("stream", _SINGLES),
    Peer(
        key="flush",
        running=partial(running, kind="flush"),
        ours=partial(ours.running, flush_mode="sync"),
        parts={"singles-64": Part(consume=None, title=SYNC_TITLE)},
        warm_up_s=WARM_UP_S,
        leg_s_max=LEG_S_MAX,
    ),
)
