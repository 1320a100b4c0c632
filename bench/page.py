"""The page of figures in ``docs/``: everything that is kept in ``bench/results/``, as tables.

.venv/bin/python bench/page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peers_page
from measure import RESULTS_PATH

PAGE_PATH = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_TITLES = {
    "append": "Append",
    "columns": "Columns in and out",
    "delay": "Delay",
    "filters": "Filters, on a store in one process",
    "latency": "From sender to listener",
    "receive": "Receiving, beside owning the queues",
    "replication": "Failover",
    "served_filters": "Filters, pulled from a broker and a FilterServer",
    "spark": "Spark",
    "store": "Reading, finding, recovering, many queues",
}
_FRONT = """# Benchmarks

Ourselves beside other message queues, in turn on one machine; then ourselves beside what that
machine can do. Written by `make bench` and `make bench-peers` from `bench/results/`; do not edit.
How it is measured: [bench/README.md](../bench/README.md).
"""
_LIMITS_FRONT = """## Ourselves alone, beside what the machine can do

A figure says something only beside its limit of the same run. "Of limit" is the fraction of the
limit's speed that we reach, pair by pair: the median, and the range in parentheses.
"""
_REPEATED = ("ns/record at best", "ns/record limit at best", "% of limit at best")
"""What only says the columns again."""


def write_page() -> Path:
    """Write the page from all results that are kept; returns its path."""
    parts = [_FRONT, peers_page.section(), _LIMITS_FRONT]
    for path in sorted(RESULTS_PATH.glob("*.json")):
        if path in {peers_page.ROWS_PATH, peers_page.RUNS_PATH}:
            continue
        kept = json.loads(path.read_text())
        parts.append("\n".join(_section(_TITLES.get(path.stem, path.stem.capitalize()), kept)))
    PAGE_PATH.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return PAGE_PATH


def _section(title: str, kept: dict[str, Any]) -> Iterator[str]:
    machine = ", ".join(f"{name} {value}" for name, value in kept["machine"].items())
    yield f"## {title}\n"
    yield f"{kept['when']}; {machine}.\n"
    yield "| Work | Ours | Limit | Of limit | Goal | |"
    yield "|---|---:|---:|---:|---:|---|"
    for row in kept["rows"]:
        yield _line(row)
    for word in kept.get("skipped", ()):
        yield f"\nSkipped: {word}"


def _line(row: dict[str, Any]) -> str:
    unit = row["unit"].replace("us/", "µs/")
    goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
    if row.get("figure_goal") is not None:
        goal = f"{_figure(row['figure_goal'])} {unit}"
    extra = ", ".join(
        f"{_rounded(value)} {name}" for name, value in row["extra"].items() if name not in _REPEATED
    )
    cells = (
        row["work"],
        f"{_figure(row['ours'])} {unit}",
        f"{_figure(row['theirs'])}, {row['against']}",
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})",
        goal,
        extra,
    )
    return f"| {' | '.join(cells)} |"


def _rounded(value: float) -> str:
    """Whole where it is large."""
    return f"{value:,.0f}" if value >= 20 else f"{value:.2g}"


def _figure(value: float) -> str:
    """Three digits that count, and no more than that after the point."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


if __name__ == "__main__":
    print(write_page())
