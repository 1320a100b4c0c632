"""CPU time and memory of processes, from ``/proc``: those that are named, and their children."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from peer_bench.loads import Usage

_PROC = Path("/proc")


def family_of(pids: Iterable[int]) -> Iterator[int]:
    """The processes and all below them that run now."""
    for pid in pids:
        yield pid
        for task in _PROC.glob(f"{pid}/task/*/children"):
            try:
                children = [int(word) for word in task.read_text().split()]
            except OSError:
                continue
            yield from family_of(children)


def usage_of(pids: Iterable[int]) -> Usage:
    """What processes took since they began; one that has ended counts nothing."""
    cpu_s, peak_bytes = 0.0, 0
    for pid in set(family_of(pids)):
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
            status = (_PROC / str(pid) / "status").read_text()
        except OSError:
            continue
        cpu_s += cpu_seconds_in(stat)
        peak_bytes += peak_bytes_in(status)
    return Usage(cpu_s, peak_bytes)


def cpu_seconds_in(stat: str) -> float:
    """User and system time in the text of ``/proc/PID/stat``."""
    # The name stands in parentheses and may hold spaces; fields are counted behind it.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes_in(status: str) -> int:
    """The largest resident memory in the text of ``/proc/PID/status``; 0 of a zombie."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def between(before: Usage, after: Usage) -> Usage:
    """What was taken between two looks at the same processes."""
    return Usage(max(after.cpu_s - before.cpu_s, 0.0), after.peak_bytes)
