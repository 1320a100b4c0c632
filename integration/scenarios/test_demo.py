"""The demo as a person runs it, over one week: totals, exit statuses, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent / "demo"
WEEK_EVENTS = "18,262"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def demo(tmp_path):
    """Start the demo with a temporary folder of its own."""
    started = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, str(DEMO), "--picture", str(tmp_path / "delays.png"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def processes_that_mention(text):
    """Command lines of running processes with `text` in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def assert_nothing_left(tmp_path):
    temporary = tmp_path / "temporary"
    deadline = time.monotonic() + 60
    while processes_that_mention(str(temporary)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_that_mention(str(temporary)) == []
    assert list(temporary.glob("ariane-demo-*")) == []


def test_a_week_holds_all_totals(demo, tmp_path):
    process = demo("--days", "7")
    output, _ = process.communicate(timeout=110)
    assert process.returncode == 0, output
    assert re.search(r"All \d+ totals hold", output)
    assert re.search(rf"events read by Spark +│ +{WEEK_EVENTS} │ +{WEEK_EVENTS} ", output)
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "delays.png") in output
    assert_nothing_left(tmp_path)


def test_all_totals_hold_although_primaries_are_killed(demo, tmp_path):
    process = demo("--days", "7", "--kill-primaries")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert re.search(r"All \d+ totals hold", output)
    assert re.search(r"primaries killed, .*│ +2 │ +2 ", output)
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("sabotage", "broken"),
    [
        ("lose", "events acknowledged"),
        ("swap", "events out of order for their aircraft"),
    ],
)
def test_a_fault_is_noticed(demo, tmp_path, sabotage, broken):
    process = demo("--days", "1", "--sabotage", sabotage)
    output, _ = process.communicate(timeout=110)
    assert process.returncode == 1, output
    assert re.search(rf"The demo failed: \d+ of \d+ totals do not hold, first: {broken}", output)
    assert "totals hold" not in output
    assert_nothing_left(tmp_path)


def test_ctrl_c_leaves_nothing(demo, tmp_path):
    process = demo("--months", "1")
    for line in process.stdout:
        if line.startswith("publish in event-time order"):
            process.send_signal(signal.SIGINT)
            break
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert output.splitlines()[-1].startswith("The demo was interrupted")
    assert "Traceback" not in output
    assert_nothing_left(tmp_path)
