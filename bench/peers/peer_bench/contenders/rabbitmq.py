"""RabbitMQ quorum queues by its Python clients, aio-pika and pika.

A quorum queue flushes what it confirms; it cannot be told otherwise, so we flush synchronously too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from peer_bench.contender import DriverContender
from peer_bench.contenders import ours
from peer_bench.contenders.rabbitmq_server import rabbitmq_server
from peer_bench.drivers import Driver
from peer_bench.fetched.python_clients import client_python, client_versions
from peer_bench.peers import Part, Peer, Target
from peer_bench.places import DRIVERS_PATH

_TARGET: Final = Target(1.5, 3.0)


@contextmanager
def running(data_path: Path, *, client: str) -> Iterator[DriverContender]:
    """Run the server and one client, in a folder of their own.

    Raises:
        PeerUnavailable: They cannot be had or started here.
    """
    python = client_python()
    with rabbitmq_server(data_path) as (port, pid, found):
        name = client.replace("-", "_")
        command = [python, str(DRIVERS_PATH / f"{name}_driver.py"), str(port)]
        with Driver(client, command, data_path / "driver.log") as driver:
            yield DriverContender(
                f"{client} to RabbitMQ quorum queues {found}, both flushing synchronously",
                driver,
                [pid],
                settings={"flush": "each confirmation", "queue": "quorum", "prefetch": 4000},
                versions={"rabbitmq-server": found, **client_versions(client)},
            )


def _peer(client: str) -> Peer:
    return Peer(
        key=client,
        running=partial(running, client=client),
        ours=partial(ours.running, flush_mode="sync"),
        parts={
            "batches": Part(_TARGET, consumed={"listener": _TARGET}, quick=client == "pika"),
            "singles-64": Part(),
        },
        start_s=12.0,
    )


PEERS: Final = tuple(_peer(client) for client in ("aio-pika", "pika"))
