"""A year of flights through Spark, as a person runs it: every total is its closed form."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

YEAR = Path(__file__).parents[2] / "year"

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("days", ["40", "365"])
def test_all_totals_hold(tmp_path, days):
    done = subprocess.run(
        [sys.executable, str(YEAR), "--days", days],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "ARIANE_NAMESRV_WARM_UP_S": "0"},
        timeout=3500,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.search(r"All \d\d totals hold", done.stdout)
    assert "2013-02-08" in done.stdout
    assert list(tmp_path.iterdir()) == []
