"""Services and clients do the same on every event loop, and where uvloop is not installed."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from ariane_sdk import Message, Producer, PushConsumer, sync
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.small_store import SMALL_STORE
from ariane_wire import new_event_loop


@pytest.fixture(autouse=True)
def cold_starts(monkeypatch):
    """Services start as users start them: which loop they run on is decided then."""
    start = staticmethod(asyncio.create_subprocess_exec)
    monkeypatch.setattr(ServiceProcess, "start_child", start)


@pytest.fixture
def without_uvloop(tmp_path, monkeypatch):
    """Neither this process nor those it starts can import uvloop."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "uvloop.py").write_text("raise ImportError('not installed')\n")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    monkeypatch.setitem(sys.modules, "uvloop", None)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_messages_pass_on_each_loop(tmp_path, monkeypatch, loop):
    monkeypatch.setenv("ARIANE_NAMESRV_EVENT_LOOP", loop)
    monkeypatch.setenv("ARIANE_BROKER_EVENT_LOOP", loop)

    loaded = _run(loop, tmp_path)

    assert loaded == [loop == "uvloop"] * 2


def test_messages_pass_without_uvloop(tmp_path, without_uvloop):
    assert _run("uvloop", tmp_path) == [False, False]


def _run(loop, folder):
    with asyncio.Runner(loop_factory=partial(new_event_loop, loop)) as runner:
        return runner.run(asyncio.wait_for(_scenario(folder), 120))


async def _scenario(folder):
    """Sends by both faces of the client and a transaction; returns who has uvloop's library."""
    bodies, got = {b"plain", b"blocking", b"transaction"}, asyncio.Queue()

    async def listen(messages):
        for message in messages:
            got.put_nowait(message.body)

    async with LocalCluster(folder / "cluster", extra_broker_args=SMALL_STORE) as cluster:
        servers = cluster.name_servers
        async with Producer(servers, group="loops-api") as producer:
            await producer.send(Message("loops", b"plain"))
            async with producer.transaction(Message("loops", b"transaction")):
                pass
        await asyncio.to_thread(_send_blocking, servers, b"blocking")
        async with PushConsumer(
            servers, group="loops", subscriptions={"loops": "*"}, listener=listen, start="earliest"
        ):
            assert {await got.get() for _ in bodies} == bodies
        loaded = [_has_uvloop(process.pid) for process in cluster.processes]
        assert set((await cluster.stop()).values()) == {0}
    return loaded


def _send_blocking(servers, body):
    with sync.Producer(servers) as producer:
        producer.send(Message("loops", body))


def _has_uvloop(pid):
    return "uvloop" in Path(f"/proc/{pid}/maps").read_text()
