"""The quick start of ``docs/filters.md``, as it is printed, under ``ariane dev``."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
PAGE = Path(__file__).parents[3] / "docs" / "filters.md"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def dev(tmp_path):
    """A cluster by ``ariane dev``, and what its first line says."""
    process = subprocess.Popen(
        [BIN / "ariane", "dev", "--name-server-port", "0", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


def blocks_of(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_quick_start_works_as_it_is_printed(dev, tmp_path):
    start, commands, *_ = blocks_of("bash")
    assert start.strip() == "ariane dev"
    program, *_ = blocks_of("python")
    environment = {
        **os.environ,
        "ARIANE_NAME_SERVERS": dev["name_servers"],
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }

    def run(*command, said):
        return subprocess.run(
            command,
            input=said,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env=environment,
            check=True,
        ).stdout

    told = run("bash", "-euo", "pipefail", said=commands)
    assert "2 of 4 messages matched." in told
    [version] = set(re.findall(r"late@[0-9a-f]{12}", told))
    program = re.sub(r"late@[0-9a-f]{12}", version, program)
    program = program.replace("127.0.0.1:9876", dev["name_servers"])
    found = []
    deadline = time.monotonic() + 120
    while len(found) < 2 and time.monotonic() < deadline:
        found += run(sys.executable, "-", said=program).split()
    assert sorted(found) == ["120", "90"]


def test_dev_starts_a_filter_server_again(dev):
    [server] = [each for each in dev["services"] if each["name"].startswith("filter-")]
    os.kill(server["pid"], signal.SIGKILL)
    servers = ("--name-servers", dev["name_servers"])
    deadline = time.monotonic() + 120
    while True:
        done = subprocess.run(
            [BIN / "ariane", "filter", "list", *servers],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.2)
