"""A minute of the soak: every kind of process restarted and killed under ten producers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unplugged_disk import why_not

from ariane_testkit.closed_clusters import all_are_closed

SOAK = Path(__file__).parents[1] / "soak"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ([], 8),
        pytest.param(
            ["--power-cuts"], 9, marks=pytest.mark.skipif(bool(why_not()), reason=why_not())
        ),
    ],
)
def test_a_minute_of_restarts_keeps_every_promise(tmp_path, flags, kinds):
    command = [sys.executable, str(SOAK), "--minutes", "1", "-o", "json", *flags]
    if all_are_closed():
        command.append("--closed")
    finished = subprocess.run(
        [*command, "--keep", str(tmp_path / "soak")],
        check=False,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    report = json.loads(finished.stdout)
    assert report["holds"]
    assert len(report["disturbances"]) == kinds, "every kind, in every manner"
    assert report["acknowledged"] > 10_000
    assert all(group["received"] >= report["acknowledged"] for group in report["groups"])
