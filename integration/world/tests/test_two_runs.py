"""A seed is played in the same way by every process, and finds nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
SEED = 2
SCALE = 0.05


def played(tmp_path, hash_seed):
    ledger = tmp_path / f"{hash_seed}.jsonl"
    command = (sys.executable, str(HERE), "--seeds", str(SEED), "--scale", str(SCALE))
    running = subprocess.Popen(
        (*command, "--ledger", str(ledger)),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return running, ledger


@pytest.mark.slow
@pytest.mark.timeout(1000)  # On a machine that others use, too.
def test_two_processes_with_different_hashes_play_one_trace_and_find_nothing(tmp_path):
    runs = [played(tmp_path, hash_seed) for hash_seed in (1, 2)]
    verdicts = []
    for running, ledger in runs:
        said, _ = running.communicate(timeout=900)
        assert running.returncode == 0, said
        verdicts.append(json.loads(ledger.read_text()))
    first, second = verdicts
    assert first["digest"] == second["digest"]
    assert first["acknowledged"] > 200
    assert first["acknowledged"] == second["acknowledged"]
