"""What scenarios share: clusters that need little room, and commands as a person types them."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

HERE = Path(__file__).parent
# New clients, what tests of replicas ask, queries as processes, and disks that lose power.
sys.path += [str(HERE), str(HERE / "replicas"), str(HERE / "spark"), str(HERE.parent / "faults")]


@pytest.fixture
def local_cluster(tmp_path):
    """Start a cluster of real processes for the length of a block."""

    @asynccontextmanager
    async def local_cluster(*broker_flags, **shape):
        flags = (*SMALL_STORE, *broker_flags)
        async with LocalCluster(tmp_path, extra_broker_args=flags, **shape) as cluster:
            yield cluster

    return local_cluster


@pytest.fixture
def ariane(capfd):
    """Run a command; return its exit status and what it wrote as JSON.

    Its first argument is a cluster, or the addresses of name servers.
    """

    async def ariane(where, *arguments):
        capfd.readouterr()
        name_servers = where if isinstance(where, str) else where.name_servers
        words = [*arguments, "--name-servers", name_servers, "-o", "json"]
        status = await asyncio.to_thread(main, words)
        out = capfd.readouterr().out
        return status, json.loads(out) if out else None

    return ariane


@pytest.fixture
def until():
    """Wait until a question is answered with something true, and return that."""

    async def until(ask, *, seconds=120.0):
        async with asyncio.timeout(seconds):
            while not (answer := await ask()):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        return answer

    return until
