import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from peer_bench.errors import PeerUnavailable
from peer_bench.servers import server, version_in

from ariane_testkit.free_ports import free_port


def test_versions_are_found_in_what_programs_say():
    said = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"
    assert version_in(said) == "7.0.15"
    assert version_in("nats-server: v2.15.2") == "2.15.2"
    with pytest.raises(PeerUnavailable, match="no version"):
        version_in("usage: redis")


def test_a_server_is_there_when_it_listens_and_gone_afterwards(tmp_path):
    port = free_port()
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    with server("queue", [sys.executable, "-c", code], port=port, home=tmp_path) as pid:
        assert (tmp_path / "queue.log").exists()
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_processes_that_a_server_started_end_with_it(tmp_path, ends_soon):
    port, told = free_port(), tmp_path / "pid"
    code = "import socket, subprocess, sys, time, pathlib\n"
    code += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    code += f"pathlib.Path({str(told)!r}).write_text(str(child.pid))\n"
    code += f"s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    with server("queue", [sys.executable, "-c", code], port=port, home=tmp_path):
        pid = int(told.read_text())
    assert ends_soon(pid)


def test_a_server_that_ends_or_is_not_there_is_unavailable(tmp_path):
    for command in ([sys.executable, "-c", "print('no disk'); exit(3)"], ["/no/such/program"]):
        with (
            pytest.raises(PeerUnavailable, match=r"ended with status 3: no disk|cannot be started"),
            server("queue", command, port=free_port(), home=tmp_path),
        ):
            raise AssertionError("it does not run")


HARNESS = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ariane_testkit.free_ports import free_port
from peer_bench.servers import server

port, told = free_port(), Path(sys.argv[2])
code = f'''
import os, socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
server = socket.create_server(("127.0.0.1", {port}))
time.sleep(60)
'''
with server("queue", [sys.executable, "-c", code], port=port, home=told.parent):
    time.sleep(60)
"""


def test_servers_end_with_a_harness_that_is_killed(tmp_path, ends_soon):
    said = tmp_path / "queue.log"
    command = [sys.executable, "-c", HARNESS, str(Path(__file__).parents[1]), str(said)]
    with subprocess.Popen(command) as harness:
        deadline = time.monotonic() + 60
        while not (said.exists() and said.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.01)
        pids = [int(word) for word in said.read_text().split()]
        harness.kill()
    assert len(pids) == 2
    assert all(ends_soon(pid) for pid in pids)
