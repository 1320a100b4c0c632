"""NATS JetStream: its server as a Go module, streams in files, and nats-py."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal

from ariane_testkit.free_ports import free_port
from peer_bench.contender import DriverContender
from peer_bench.drivers import Driver
from peer_bench.errors import PeerUnavailable
from peer_bench.fetched.python_clients import client_python, client_versions
from peer_bench.peers import Part, Peer, Target
from peer_bench.places import CACHE_PATH, DRIVERS_PATH
from peer_bench.servers import server

VERSION: Final = "2.15.2"
BUILD_S_MAX: Final = 900
_MODULE: Final = f"github.com/nats-io/nats-server/v2@v{VERSION}"


def server_program() -> Path:
    """The server, built once.

    Raises:
        PeerUnavailable: There is no Go here, or the module cannot be had.
    """
    folder = CACHE_PATH / f"nats-{VERSION}"
    program = folder / "nats-server"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise PeerUnavailable("go is not installed")
    try:
        done = subprocess.run(
            ["go", "install", _MODULE],
            env={**os.environ, "GOBIN": str(folder)},
            capture_output=True,
            timeout=BUILD_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailable(f"building {_MODULE} took longer than {BUILD_S_MAX} s") from error
    if done.returncode != 0:
        raise PeerUnavailable(f"{_MODULE} cannot be had: {done.stderr.decode()[-500:]}")
    return program


@contextmanager
def running(data_path: Path, *, streams: Literal["each", "one"]) -> Iterator[DriverContender]:
    """Run it in a folder that is its own; each topic a stream, or all of them subjects of one.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    program, python, port = server_program(), client_python(), free_port()
    command = [str(program), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(data_path)]
    with server("nats", command, port=port, home=data_path) as pid:
        client = [python, str(DRIVERS_PATH / "nats_driver.py"), f"nats://127.0.0.1:{port}"]
        name = f"nats-py to NATS JetStream {VERSION}"
        with Driver("nats-py", [*client, streams], data_path / "driver.log") as driver:
            yield DriverContender(
                name if streams == "each" else f"{name}, 1 stream",
                driver,
                [pid],
                settings={
                    "flush": "async, every 2 minutes",
                    "storage": "file",
                    "a stream": "each topic" if streams == "each" else "all topics, as subjects",
                    "acknowledging": "the last of each fetch of 1,000",
                },
                versions={"nats-server": VERSION, **client_versions("nats-py")},
            )


PEER: Final = Peer(
    key="nats",
    running=partial(running, streams="each"),
    parts={
        "batches": Part(Target(1.5, 3.0), consumed={"listener": Target(1.5, 3.0)}, quick=True),
        "singles-64": Part(Target(1.5, 2.5)),
        "topics-peers": Part(),
    },
)

ONE_STREAM: Final = Peer(
    key="nats-one-stream",
    running=partial(running, streams="one"),
    parts={"topics-peers": Part()},
)
"""Many topics as subjects of one stream cost its server about half the CPU of a stream each."""
