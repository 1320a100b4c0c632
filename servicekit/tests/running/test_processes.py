"""Child processes: started, restarted, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess

SCRIPT_FOLDER = Path(__file__).parent


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    """A child that misbehaves as told."""
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT_FOLDER))

    def scripted(misbehaviour, *flags):
        monkeypatch.setenv("MISBEHAVIOUR", misbehaviour)
        return ServiceProcess("child", "scripted_service", flags, tmp_path / "child.log")

    return scripted


async def test_a_cluster_starts_and_stops_in_order(tmp_path):
    async with LocalCluster(tmp_path, brokers=0, name_servers=2) as cluster:
        first, second = cluster.name_server_processes
        assert cluster.name_servers == f"{first.address},{second.address}"
        assert first.address != second.address
        pids = [process.pid for process in cluster.processes]
        assert all(map(is_alive, pids))
        assert all(process.running for process in cluster.processes)
    assert not any(map(is_alive, pids))
    assert [process.exit_status for process in cluster.processes] == [0, 0]
    assert (tmp_path / "logs" / "namesrv-0.log").read_text().count("service_stopped") == 1
    assert await cluster.stop() == {"namesrv-0": 0, "namesrv-1": 0}


async def test_a_killed_process_comes_back_on_its_port(tmp_path):
    async with LocalCluster(tmp_path, brokers=0) as cluster:
        [process] = cluster.name_server_processes
        address, pid = process.address, process.pid
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        assert process.ending == "was ended by SIGKILL"
        assert not process.running
        process.terminate()
        await process.restart()
        assert process.address == address
        assert process.pid != pid
        await process.restart()
        assert process.address == address


async def test_a_child_that_ends_is_told_with_the_end_of_its_log(scripted):
    process = scripted("refuse")
    with pytest.raises(ProcessFailed, match="locked by process 1") as caught:
        await process.start()
    assert caught.value.exit_status == 2
    assert "child: ended with status 2" in str(caught.value)
    assert not process.running


async def test_a_child_that_is_not_ready_in_time_is_ended(scripted, monkeypatch):
    monkeypatch.setattr("ariane_servicekit.running.processes.READY_S_MAX", 1.0)
    process = scripted("slow-recovery")
    with pytest.raises(ProcessFailed, match="was not ready within 1 s"):
        await process.start()
    assert not is_alive(process.pid)


async def test_a_late_child_is_told_with_what_it_did_not_say_and_what_it_said(scripted):
    process = scripted("refuse")
    with pytest.raises(ProcessFailed):
        await process.start()
    process.ready_s_max = 0.001
    with pytest.raises(ProcessFailed, match=r"was not ready within 0\.001 s") as caught:
        await process.start()
    text = str(caught.value)
    assert "the address did not come" in text
    assert f"on {os.cpu_count()} processors" in text
    # Lines of the start before would tell of another failure.
    assert text.endswith(f"{process.log_path}:\n  (nothing since it was started)")


async def test_a_child_that_does_not_stop_is_killed(scripted, monkeypatch):
    monkeypatch.setattr("ariane_servicekit.running.processes.STOP_S_MAX", 0.5)
    process = scripted("stuck-drain")
    await process.start()
    assert await process.stop() == -signal.SIGKILL


async def test_a_cancelled_start_leaves_nothing(scripted):
    process = scripted("slow-recovery")
    starting = asyncio.ensure_future(process.start())
    while not process.started:  # noqa: ASYNC110 - the process tells nobody
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_alive(process.pid)


async def test_a_start_that_fails_half_way_stops_the_rest(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        cluster = LocalCluster(tmp_path, brokers=0, name_servers=2)
        taken = cluster.name_server_processes[1]
        taken._listen = taken._listen.with_port(holder.getsockname()[1])
        with pytest.raises(ProcessFailed, match="Address already in use"):
            await cluster.start()
    first = cluster.name_server_processes[0]
    assert not first.running
    assert first.exit_status == 0


def test_the_blocking_twin(tmp_path):
    with LocalCluster(tmp_path, brokers=0) as cluster:
        [process] = cluster.name_server_processes
        pid = process.pid
        assert is_alive(pid)
        cluster.call_blocking(process.restart)
        assert not is_alive(pid)
        pid = process.pid
    assert not is_alive(pid)
    assert cluster.stop_blocking() == {}
    with pytest.raises(RuntimeError, match="start_blocking"):
        cluster.call_blocking(process.restart)


@pytest.mark.parametrize("style", ["async", "blocking"])
def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path, style):
    code = {
        "async": (
            "import asyncio, pathlib, sys, time\n"
            "from ariane_servicekit.running.processes import LocalCluster\n"
            "async def main():\n"
            "    async with LocalCluster(pathlib.Path(sys.argv[1]), brokers=0) as cluster:\n"
            "        print(cluster.processes[0].pid, flush=True)\n"
            "        await asyncio.sleep(3600)\n"
            "asyncio.run(main())\n"
        ),
        "blocking": (
            "import pathlib, sys, time\n"
            "from ariane_servicekit.running.processes import LocalCluster\n"
            "with LocalCluster(pathlib.Path(sys.argv[1]), brokers=0) as cluster:\n"
            "    print(cluster.processes[0].pid, flush=True)\n"
            "    time.sleep(3600)\n"
        ),
    }[style]
    for number in (signal.SIGKILL, signal.SIGINT):
        parent = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / number.name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        child = int(parent.stdout.readline())
        assert is_alive(child)
        assert os.getpgid(child) == child
        parent.send_signal(number)
        parent.wait(60)
        parent.stdout.close()
        wait_until(lambda pid=child: not is_alive(pid))
        log = (tmp_path / number.name / "logs" / "namesrv-0.log").read_text()
        assert "service_stopped" in log
