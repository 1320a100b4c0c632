"""Who of the processes of a benchmark takes the processor: brokers, Spark's JVM, its Python."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MICROSECONDS = 1_000_000

ROLES = ("brokers", "JVM", "Python")
"""Python: the workers, and the driver with its planners."""


class ProcessorTime:
    """What one of several works has cost, by role, each time that it was done."""

    def __init__(self, brokers: Collection[int], rows: int) -> None:
        """``brokers`` are their processes; ``rows`` are moved each time."""
        self._brokers = frozenset(brokers)
        self._rows = rows
        self._spent: list[dict[str, float]] = []

    def of(self, work: Callable[[], object]) -> Callable[[], None]:
        """The same work, whose cost is noted."""

        def run() -> None:
            before = seconds_by_role(self._brokers)
            work()
            after = seconds_by_role(self._brokers)
            self._spent.append({role: after[role] - before[role] for role in ROLES})

        return run

    def row_microseconds(self, role: str) -> float:
        """The median for a row; the first time, when all gets warm, is left out."""
        seconds = statistics.median(spent[role] for spent in self._spent[1:])
        return seconds / self._rows * _MICROSECONDS


def seconds_by_role(brokers: Collection[int]) -> dict[str, float]:
    """Seconds of all descendants of this process so far, with those that they have reaped.

    Args:
        brokers: The processes of the brokers.
    """
    found = dict.fromkeys(ROLES, 0.0)
    for process, (name, seconds) in _family().items():
        if process in brokers:
            found["brokers"] += seconds
        else:
            found["JVM" if name == "java" else "Python"] += seconds
    return found


def _family() -> dict[int, tuple[str, float]]:
    """Name and seconds of this process and all that descend from it."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    found: dict[int, tuple[str, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It has ended meanwhile.
            front, _, rest = path.read_text().rpartition(")")
            fields = rest.split()
            process, _, name = front.partition(" (")
            children[int(fields[1])].append(int(process))
            found[int(process)] = (name, sum(map(int, fields[11:15])) / _TICKS)
    family, left = {os.getpid()}, [os.getpid()]
    while left:
        born = children[left.pop()]
        family.update(born)
        left += born
    return {process: found[process] for process in family}
