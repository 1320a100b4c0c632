"""A flush fails, once or for ever: nothing is acknowledged any more, whatever comes after."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numbered_writer import config

from ariane_storage import FlushMode, Store

FAULTS = Path(__file__).parents[1]
MESSAGES = 12

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("strace"), reason="missing: strace"),
]


def run_under_strace(root: Path, injection: str) -> list[str]:
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,msync"]
    command += ["-e", f"inject={injection}", sys.executable]
    command += [str(FAULTS / "flush_until_refused.py"), str(root), str(MESSAGES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr or "StorePoisoned" in done.stderr, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.fixture(scope="module")
def flush_calls(tmp_path_factory) -> tuple[str, int, int]:
    """Which call flushes, how many a start makes, and how many a run makes in all."""
    root = tmp_path_factory.mktemp("counted")
    trace = root / "trace"
    command = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync,msync,write"]
    command += [sys.executable, str(FAULTS / "flush_until_refused.py"), str(root / "s"), "12"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    before, _, after = trace.read_text().partition("ready")
    names = ("fsync(", "fdatasync(", "msync(")
    per_message = after.partition("readable")[0]
    counts = {name: per_message.count(name) for name in names}
    name = max(counts, key=lambda each: counts[each])
    return name[:-1], before.count(name), counts[name]


def test_every_acknowledgement_follows_a_sync_of_its_own(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync,msync,write"]
    command += [sys.executable, str(FAULTS / "flush_until_refused.py")]
    command += [str(tmp_path / "store"), str(MESSAGES)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)

    synced, acknowledged = False, 0
    for line in trace.read_text().partition('"ready')[2].splitlines():
        if "sync(" in line:
            assert line.endswith("= 0")
            synced = True
        elif '"acknowledged ' in line:
            assert synced, f"nothing was synced before: {line}"
            synced, acknowledged = False, acknowledged + 1
    assert acknowledged == MESSAGES


@pytest.mark.parametrize("lasting", ["", "+"], ids=["once", "for ever"])
@pytest.mark.parametrize("which", [1, 5])
def test_no_acknowledgement_follows_a_failed_flush(
    tmp_path: Path, flush_calls: tuple[str, int, int], which: int, lasting: str
) -> None:
    call, at_start, while_running = flush_calls
    assert while_running >= MESSAGES

    lines = run_under_strace(
        tmp_path / "store", f"{call}:error=EIO:when={at_start + which}{lasting}"
    )

    outcomes = [line.split()[0] for line in lines if line.split()[0] not in {"ready", "readable"}]
    acknowledged = outcomes.index("StorePoisoned")
    assert acknowledged < MESSAGES
    assert set(outcomes[acknowledged:]) - {"end"} == {"StorePoisoned"}
    assert f"readable {acknowledged}" in lines

    with Store.open(tmp_path / "store", config(FlushMode.SYNC)) as store:
        assert store.queue_bounds("orders", 0)[1] >= acknowledged
