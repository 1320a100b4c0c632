"""The number of concurrent tasks, as far as a planner can find it out.

Spark plans in a process beside the driver, without information on the cluster. The requested size
of the cluster is on the command line of the driver's Java process, an ancestor of the planner::

    java ... org.apache.spark.deploy.SparkSubmit --master spark://host:7077
        --conf spark.executor.instances=10 --conf spark.executor.cores=4 ... job.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

CLUSTER_TASKS: Final = 32
"""The assumed cores of a cluster of unknown size; with fewer, each gets a task or two too many."""

_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_FLAGS: Final = {
    "--master": "spark.master",
    "--num-executors": "spark.executor.instances",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
}
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


@cache
def cluster_parallelism() -> int:
    """The number of concurrent tasks; constant in a process."""
    cores = os.cpu_count() or 1
    for arguments in _ancestors():
        if _SUBMIT in arguments:
            return parallelism_of(settings_of(arguments), cores)
    return cores


def settings_of(arguments: Sequence[str]) -> dict[str, str]:
    """The settings in a Spark command line; later ones override earlier ones.

    Args:
        arguments: The arguments of the Java process.
    """
    settings: dict[str, str] = {}
    for name, value in pairwise(arguments):
        if name in {"--conf", "-c"}:
            key, equals, text = value.partition("=")
            if equals:
                settings[key] = text
        elif name == "--properties-file":
            settings = {**_properties(Path(value)), **settings}
        elif name in _FLAGS:
            settings[_FLAGS[name]] = value
    return settings


def parallelism_of(settings: Mapping[str, str], cores: int) -> int:
    """The number of concurrent tasks with some settings.

    Args:
        settings: The settings of Spark by name.
        cores: The cores of this machine, if Spark runs on it.
    """
    master = settings.get("spark.master", "local[*]")
    if local := _LOCAL.fullmatch(master):
        return 1 if local[1] is None else cores if local[1] == "*" else max(int(local[1]), 1)
    if local_cluster := _LOCAL_CLUSTER.fullmatch(master):
        return max(int(local_cluster[1]) * int(local_cluster[2]), 1)
    task_cores = _number(settings, "spark.task.cpus") or 1
    most = _number(settings, "spark.cores.max")
    executors = _number(settings, "spark.executor.instances") or _number(
        settings, "spark.dynamicAllocation.maxExecutors"
    )
    executor_cores = _number(settings, "spark.executor.cores")
    if executors and (executor_cores or not master.startswith("spark:")):
        # Except in Spark's own clusters, an executor has one core unless it asks for more.
        wanted = executors * (executor_cores or 1)
        most = min(wanted, most) if most else wanted
    return max(most // task_cores, 1) if most else max(cores, CLUSTER_TASKS)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "").strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _ancestors() -> Iterator[list[str]]:
    """The command lines of this process's ancestors; none if the system does not show them."""
    process = os.getppid()
    try:
        while process > 1:
            folder = Path("/proc", str(process))
            yield (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            # The name, in brackets, may have any characters.
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return


def _properties(path: Path) -> dict[str, str]:
    """A file of settings in Spark's format: a name, a space or an equals sign, a value."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    pairs = (re.split(r"[ \t]*[=:][ \t]*|[ \t]+", line.strip(), maxsplit=1) for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
