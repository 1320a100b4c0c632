"""What is measured of whoever keeps a backlog: the cases, and the table that they give."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

TOPIC: Final = "backlog"
LIVE: Final = "live"
QUEUES: Final = 16
BODY_BYTES: Final = 1024
LIVE_PER_S: Final = 300
LAGGING_BEFORE_S: Final = 2.0
"""So long the groups read before anything is measured."""


class Case(NamedTuple):
    """Who reads the backlog meanwhile."""

    groups: int
    """Groups that lag."""
    at_once: bool
    """Whether each reads all queues at once, instead of one after the other."""


class Reading(NamedTuple):
    """How the backlog is read, in all cases."""

    seconds: float
    """How long live traffic is measured."""
    per_s: float
    """Messages that all groups together read a second at most; 0: any number."""
    is_warm: bool
    """Whether it is in the page cache before each case, instead of on the disk only."""


def cases_of(groups: str) -> list[Case]:
    """All cases: none that lags, then so many groups, in both ways."""
    lagging = [Case(int(each), way) for each in groups.split(",") for way in (False, True)]
    return [Case(0, at_once=False), *lagging]


class Measured(NamedTuple):
    """What a case gave."""

    sent_ms: tuple[float, float]
    """From when a message was due until it was acknowledged: p50 and p99."""
    heard_ms: tuple[float, float]
    """The same until the listener's call."""
    counts: Sequence[int]
    """Messages of the backlog that each second brought, of all groups."""
    disk_mb_per_s: float
    """What the servers read."""


HEAD = """\
| | groups | each reads | send p50 | p99 | heard p50 | p99 ms | backlog/s | disk MB/s | load |
|---|---|---|---|---|---|---|---|---|---|"""


def show(name: str, case: Case, measured: Measured) -> None:
    """Print a row."""
    way = "all queues at once" if case.at_once else "queue after queue"
    sent, heard = measured.sent_ms, measured.heard_ms
    backlog = statistics.median(measured.counts) if measured.counts else 0
    print(
        f"| {name} | {case.groups or 'none'} | {way if case.groups else ''} | {sent[0]:.1f} |"
        f" {sent[1]:.1f} | {heard[0]:.1f} | {heard[1]:.1f} | {backlog:,.0f} |"
        f" {measured.disk_mb_per_s:.0f} | {os.getloadavg()[0]:.0f} |",
        flush=True,
    )


def median_and_p99(values: Sequence[float]) -> tuple[float, float]:
    """Of what messages took."""
    p50, p99 = np.percentile(values, [50, 99])
    return float(p50), float(p99)
