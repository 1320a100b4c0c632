"""Whether a job's Spark lives: exit status 0 if its JVM does."""

import sys
from pathlib import Path


def is_spark(process: Path) -> bool:
    """Whether a process of /proc is Spark's."""
    try:
        return b"org.apache.spark.deploy.SparkSubmit" in (process / "cmdline").read_bytes()
    except OSError:
        return False  # It has just ended.


sys.exit(not any(is_spark(process) for process in Path("/proc").glob("[0-9]*")))
