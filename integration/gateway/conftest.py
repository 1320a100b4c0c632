"""One cluster, one gateway and one program of each client for all tests that break none of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from actors import started
from official import NEWEST, OFFICIAL
from stage import BROKER_FLAGS, Actor, Stage, gateway_process

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster

WANTED = os.environ.get("CLIENTS", " ".join((*NEWEST, "ariane"))).split()
"""Clients that play; ``CLIENTS="python go" make gateway-test`` plays with these only."""


@pytest.fixture(scope="session")
def stage(tmp_path_factory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("cluster")
    flags = {"brokers": 2, "checkers": 1, "extra_broker_args": BROKER_FLAGS}
    with (
        LocalCluster(folder, **flags) as cluster,
        ClusterClient(cluster.name_servers.split(",")) as client,
    ):
        yield Stage(cluster, client)


@pytest.fixture(scope="session")
def gateway(stage) -> Iterator[str]:
    """The address of a gateway."""
    process = gateway_process(stage.cluster)
    stage.cluster.call_blocking(process.start)
    yield process.address
    stage.cluster.call_blocking(process.stop)


@pytest.fixture(scope="session")
def actor(stage, gateway, tmp_path_factory) -> Iterator[Callable[[str], Actor]]:
    """A client that speaks to the gateway, started when it is first wanted."""
    running: dict[str, Actor] = {}
    homes = tmp_path_factory.mktemp("homes")

    def actor(name: str) -> Actor:
        if name not in running:
            running[name] = started(name, gateway, stage, homes / name)
        return running[name]

    yield actor
    for each in running.values():
        each.program.end()


@pytest.fixture(scope="session")
def names() -> list[str]:
    """One version of each language that this machine can run, and our own SDK."""
    return [name for name in WANTED if name not in OFFICIAL or not OFFICIAL[name].missing]


@pytest.fixture(scope="session")
def cast(actor, names) -> list[Actor]:
    """All of these, at the gateway that nobody kills."""
    return [actor(name) for name in names]
