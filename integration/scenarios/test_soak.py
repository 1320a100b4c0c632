"""A minute of the soak: every kind of process restarted and killed under ten producers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_minute_of_restarts_keeps_every_promise(tmp_path):
    command = [sys.executable, str(SOAK), "--minutes", "1", "-o", "json"]
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
    assert len(report["disturbances"]) == 8, "every kind, stopped and killed"
    assert report["acknowledged"] > 10_000
    assert all(group["received"] >= report["acknowledged"] for group in report["groups"])
