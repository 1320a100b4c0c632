"""Workers are forks of a process that has imported what tasks need."""

import subprocess
import sys

import pytest
from pyspark.sql import functions as f

from ariane_spark.worker_daemon import OF_TASKS

THREADS = """
import importlib, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
print(threading.active_count())
"""


def test_what_is_imported_before_the_fork_starts_no_threads():
    done = subprocess.run(
        [sys.executable, "-c", THREADS, *OF_TASKS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"], done.stderr


@pytest.mark.spark
def test_workers_of_a_local_session_are_its_forks(spark):
    @f.udf("array<string>", useArrow=False)
    def look(number):
        import os  # noqa: PLC0415 - runs in a task.
        import sys  # noqa: PLC0415 - the same.
        from pathlib import Path  # noqa: PLC0415 - the same.

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        return [parent, *(name for name in OF_TASKS if name not in sys.modules)]

    [[parent, *missing]] = spark.range(1).select(look("id")).first()
    assert "ariane_spark.worker_daemon" in parent
    assert not missing
