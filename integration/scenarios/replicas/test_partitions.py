"""Ten seeded runs of a group of three brokers that is cut apart, killed, paused and unplugged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unplugged_disk import why_not

PARTITIONS = Path(__file__).parents[2] / "partitions"
sys.path.append(str(PARTITIONS))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "flags"), [(1, []), (2, ["--no-power-losses"])])
def test_five_seeds_show_no_anomaly(tmp_path, seed, flags):
    from partition_soak.network import why_not as why_no_network  # noqa: PLC0415 - see the path.

    if reason := why_no_network() or why_not():
        pytest.skip(reason)
    orders = ["--seed", str(seed * 100), "--seeds", "5", "-o", "json"]
    finished = subprocess.run(
        [sys.executable, str(PARTITIONS), *orders, *flags, "--keep", str(tmp_path / "kept")],
        check=False,
        capture_output=True,
        text=True,
        timeout=880,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    runs = json.loads(finished.stdout)
    assert len(runs) == 5
    assert all(run["stored"] and run["polled"] and run["faults"] for run in runs)
    assert sum(run["elections"] for run in runs) > 0
