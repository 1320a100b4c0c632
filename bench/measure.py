"""Measuring: two pieces of work in turn, medians, and the ratio pair by pair.

Machines drift: they get warm, and others run on them. So nothing is compared across runs. A work
and its limit run alternately in one process, and each pair gives one ratio; the median ratio is
quoted with its range.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

RESULTS_PATH = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Paired:
    """A work beside its limit."""

    seconds: float
    """Median seconds of the work."""
    limit_seconds: float
    """Median seconds of its limit."""
    ratio: float
    """Median of the limit's seconds over the work's, pair by pair: the fraction of the limit's
    speed that the work reaches."""
    ratio_min: float
    """Smallest such ratio."""
    ratio_max: float
    """Largest such ratio."""
    pairs: int
    """How many pairs were run."""


def seconds_of(work: Callable[[], object]) -> float:
    """Run a work once and tell its seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def paired(
    work: Callable[[], object],
    limit: Callable[[], object],
    *,
    pairs: int,
    prepare: Callable[[], object] = lambda: None,
) -> Paired:
    """Run a work and its limit in turn, after one warm-up of each.

    Args:
        work: What is measured.
        limit: What it is measured against.
        pairs: How many times both run.
        prepare: Runs before each of them and is not timed.
    """
    measured = []
    for _ in range(pairs + 1):
        prepare()
        ours = seconds_of(work)
        prepare()
        measured.append((ours, seconds_of(limit)))
    return pairs_of(measured[1:])


def pairs_of(measured: Sequence[tuple[float, float]]) -> Paired:
    """What pairs of seconds say: of the work, and of its limit."""
    ratios = [at_best / ours for ours, at_best in measured]
    return Paired(
        seconds=statistics.median(ours for ours, _ in measured),
        limit_seconds=statistics.median(at_best for _, at_best in measured),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=len(measured),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a result table: what was done, how fast, and against which limit.

    ``goal`` is what the ratio should reach, ``figure_goal`` what ``ours`` should.
    """

    work: str
    ours: float
    unit: str
    against: str
    theirs: float
    ratio: float
    ratio_min: float
    ratio_max: float
    pairs: int
    goal: float | None = None
    figure_goal: float | None = None
    extra: dict[str, float] = field(default_factory=dict)


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    libraries = ("grpcio", "numpy", "protobuf", "isal")
    return {
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
    }


def write_results(name: str, rows: Sequence[Row], skipped: Sequence[str] = ()) -> Path:
    """Keep rows as ``bench/results/<name>.json``, and a word on each part that was skipped."""
    RESULTS_PATH.mkdir(parents=True, exist_ok=True)
    path = RESULTS_PATH / f"{name}.json"
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content: dict[str, object] = {"when": when, "machine": machine()}
    content["rows"] = [asdict(row) for row in rows]
    if skipped:
        content["skipped"] = list(skipped)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def table_of(rows: Sequence[Row]) -> str:
    """Rows as text for people."""
    lines = [f"{'work':<44}{'ours':>12} {'unit':<12}{'limit':>12}  {'of limit':>8}  range"]
    for row in rows:
        extra = "  ".join(f"{name} {value:,.2f}" for name, value in row.extra.items())
        lines.append(
            f"{row.work:<44}{row.ours:>12,.2f} {row.unit:<12}{row.theirs:>12,.2f}  "
            f"{row.ratio:>8.2f}  {row.ratio_min:.2f}-{row.ratio_max:.2f}  {extra}".rstrip()
        )
    return "\n".join(lines)


def program(name: str, doc: str, rows: Callable[..., Sequence[Row]], *, pairs: int) -> None:
    """Be the program of one benchmark: print its rows, and keep them unless it is a quick run.

    Args:
        name: Names the results.
        doc: Of the program; its first line describes it.
        rows: Measures, given ``pairs`` and ``quick``.
        pairs: How many pairs of runs, if the command line does not say.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=pairs, help=f"of runs (default {pairs})")
    parser.add_argument("--quick", action="store_true", help="three short pairs, nothing kept")
    arguments = parser.parse_args()
    measured = rows(pairs=3 if arguments.quick else arguments.pairs, quick=arguments.quick)
    print(table_of(measured))
    if not arguments.quick:
        print(f"\nkept in {write_results(name, measured)}")
