"""Histograms of durations: counted for next to nothing, and read when somebody asks.

OpenTelemetry's own take 4 to 8 us for each value, which is a good part of what a call costs. These
take a search among a dozen bounds::

    bounds_s    25 us   50 us   100 us   250 us ...
    counts        3       17      4        0     ...     the last: longer than all bounds
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from time import time_ns
from typing import Final


class Durations:
    """How long one thing took, each time. Recorded by one thread; read by any."""

    __slots__ = ("_bounds_s", "attributes", "counts", "max_s", "min_s", "sum_s")

    def __init__(self, bounds_s: Sequence[float], attributes: Mapping[str, str]) -> None:
        self._bounds_s = bounds_s
        self.attributes: Final = attributes
        """What tells it from others of its histogram."""
        self.counts = [0] * (len(bounds_s) + 1)
        """How many fell between each two bounds, the upper one included."""
        self.sum_s = 0.0
        """All of them, seconds."""
        self.min_s = inf
        """The shortest, seconds."""
        self.max_s = 0.0
        """The longest, seconds."""

    def record(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds
        # Calls of min and max would double what this costs.
        if seconds < self.min_s:  # noqa: PLR1730 - see above.
            self.min_s = seconds
        if seconds > self.max_s:  # noqa: PLR1730 - see above.
            self.max_s = seconds


class DurationHistogram:
    """A histogram of durations in seconds, with any number of attributes."""

    def __init__(self, name: str, description: str, bounds_s: Sequence[float]) -> None:
        self.name: Final = name
        """By OpenTelemetry."""
        self.description: Final = description
        """One sentence."""
        self.bounds_s: Final = tuple(map(float, bounds_s))
        """Upper bounds of its buckets, seconds."""
        self.begun_ns: Final = time_ns()
        """Since when it counts, nanoseconds since the epoch."""
        self._series: list[Durations] = []

    @property
    def series(self) -> Sequence[Durations]:
        """One for all that have the same attributes."""
        return tuple(self._series)

    def of(self, attributes: Mapping[str, str]) -> Durations:
        """Add what is to be counted by itself; not twice the same attributes."""
        durations = Durations(self.bounds_s, attributes)
        self._series.append(durations)
        return durations

    def lines(self) -> Iterator[str]:
        """The text for Prometheus, line by line."""
        name = f"{self.name.replace('.', '_')}_seconds"
        if not self._series:
            return
        yield f"# HELP {name} {self.description}\n# TYPE {name} histogram\n"
        for each in self.series:
            labels = "".join(
                f'{key.replace(".", "_")}="{text}",' for key, text in each.attributes.items()
            )
            *reached, count = accumulate(each.counts)
            for bound, up_to in zip((*self.bounds_s, "+Inf"), (*reached, count), strict=True):
                yield f'{name}_bucket{{{labels}le="{bound}"}} {up_to}\n'
            own = f"{{{labels.removesuffix(',')}}}" if labels else ""
            yield f"{name}_count{own} {count}\n{name}_sum{own} {each.sum_s}\n"
