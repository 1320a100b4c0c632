"""Lets tests import the harness and the drivers beside them."""

import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "drivers")]


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch):
    """How full this machine's disk is changes no test; those about a full one say so themselves."""
    monkeypatch.setattr("peer_bench.command._free_bytes", lambda: 1 << 40)


@pytest.fixture
def ends_soon():
    """Whether a process that was killed is gone, or only waits for whoever adopted it."""

    def has_ended(pid):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        return stat.rpartition(")")[2].split()[0] == "Z"

    def ends(pid):
        deadline = time.monotonic() + 60
        while not has_ended(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        return has_ended(pid)

    return ends
