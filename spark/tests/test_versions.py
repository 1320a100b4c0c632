"""The job of the table of versions, by the versions of this environment."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_row_is_there_once_however_it_was_written(local_cluster, tmp_path):
    job = Path(__file__).parent / "version_job.py"
    done = subprocess.run(
        [sys.executable, str(job), local_cluster.name_servers, f"v-{os.getpid()}", str(tmp_path)],
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "rows": 600,
    }
