import asyncio
import os
import signal
from pathlib import Path

import pytest

from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.warm_starts import WarmChild, WarmStarts, can_start_warm

pytestmark = pytest.mark.skipif(not can_start_warm(), reason="Linux forks no such child here")


@pytest.fixture
async def process(tmp_path, monkeypatch):
    """A name server whose next start is warm."""
    starts = WarmStarts()
    monkeypatch.setattr(ServiceProcess, "start_child", staticmethod(starts.start))
    arguments = ("--data-path", str(tmp_path / "data"))
    process = ServiceProcess("namesrv", "ariane_namesrv", arguments, tmp_path / "log")
    await process.start()
    assert not isinstance(process._process, WarmChild)
    await process.stop()
    yield process
    process.kill()
    await process.wait()
    starts.close()


def stat_of(pid):
    """State, parent, group and session of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], *map(int, fields[1:4])


def links_of(pid):
    """Where it works, and what its first three files are; then how many it has open."""
    files = list(Path(f"/proc/{pid}/fd").iterdir())
    first = [str(Path(f"/proc/{pid}/{name}").readlink()) for name in ("cwd", "fd/0", "fd/2")]
    return *first, len(files)


async def test_a_warm_start_is_a_child_like_any_other(process, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    await process.start()
    assert isinstance(process._process, WarmChild)
    pid = process.pid
    assert stat_of(pid)[1:] == (os.getpid(), pid, pid)
    *first, count = links_of(pid)
    assert first == [str(tmp_path), "/dev/null", str(process.log_path)]
    assert count < 20  # What the template has for itself is closed.
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(60):
        while stat_of(pid)[0] != "T":  # noqa: ASYNC110 - nobody tells.
            await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGCONT)
    assert await process.stop() == 0
    assert process.exit_status == 0
    with pytest.raises(FileNotFoundError):  # It was waited for.
        stat_of(pid)
    await process.start()
    process.kill()
    assert await process.wait() == -signal.SIGKILL


async def test_what_a_template_cannot_stand_for_starts_as_ever(process, monkeypatch):
    await process.start()
    await process.stop()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "another")
    await process.start()
    assert not isinstance(process._process, WarmChild)
    await process.stop()
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    await process.start()
    assert isinstance(process._process, WarmChild)


async def test_a_start_that_fails_says_why(process):
    process.arguments = ("--data-path", "/dev/null/nowhere")
    with pytest.raises(Exception, match="/dev/null/nowhere"):
        await process.start()
    assert process.exit_status
