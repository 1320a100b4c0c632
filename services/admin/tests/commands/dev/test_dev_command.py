"""What ``ariane dev`` does when one of its processes ends."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane_admin.commands.dev import dev
from ariane_servicekit.errors import ProcessFailed


class Played:
    """A process that ends as told, and then cannot be started for a while."""

    def __init__(self, folder, name, exit_status, failures):
        self.name = name
        self.log_path = folder / name
        self.log_path.write_text("a\nb\nc\nthe disk is gone\n")
        self.pid = 0
        self.exit_status = exit_status
        self.failures = failures
        self.back = asyncio.Event()

    @property
    def ending(self):
        return f"ended with status {self.exit_status}"

    async def wait(self):
        if self.back.is_set():
            await asyncio.Event().wait()

    async def start(self):
        self.pid += 1
        if self.pid <= self.failures:
            raise ProcessFailed(self.name, "no", 1)
        self.back.set()


@pytest.mark.parametrize(("exit_status", "failures"), [(0, 0), (2, 2)])
async def test_a_process_that_ends_is_started_again_and_the_others_go_on(
    tmp_path, monkeypatch, capfd, exit_status, failures
):
    monkeypatch.setattr(dev, "_RESTART_PAUSE_S", 0.001)
    ending = Played(tmp_path, "broker-a", exit_status, failures)
    lasting = Played(tmp_path, "namesrv-0", 0, 0)
    lasting.back.set()
    cluster = SimpleNamespace(processes=(ending, lasting), brokers=(ending,), replicas=())
    watching = asyncio.create_task(dev._watch(cluster))
    async with asyncio.timeout(60):
        await ending.back.wait()
    await asyncio.sleep(0)
    assert not watching.done()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

    lines = capfd.readouterr().err.splitlines()
    ended = [line for line in lines if "broker-a ended with status" in line]
    assert len(ended) == failures + 1
    assert all("; restarting it in 0.00" in line for line in ended)
    assert sum("the disk is gone" in line for line in lines) == (failures + 1 if exit_status else 0)
    assert lines[-1] == f"ariane: warning: broker-a runs again, process {failures + 1}"
    assert lasting.pid == 0
