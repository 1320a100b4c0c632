"""The page of figures in ``docs/``, made from everything in ``bench/results/``.

.venv/bin/python -m bench.pages.benchmarks
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import RESULTS_PATH
from bench.pages import peers_page
from bench.pages.readme_figures import README_PATH, with_figures

PAGE_PATH = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_TITLES = {
    "append": "Append",
    "clients": "Single sends of other languages, beside Python",
    "columns": "Columns in and out",
    "delay": "Delay",
    "filters": "Filters, on a store in one process",
    "latency": "From sender to listener",
    "receive": "Receiving, compared with owning queues",
    "replication": "Failover",
    "served_filters": "Filters, pulled from a broker and a FilterServer",
    "spark": "Spark",
    "wire": "The price of a call: our gRPC beside grpcio's",
    "wire_hostile": "An honest client beside hostile ones",
    "starting": "A start and a takeover, by the length of the log",
    "turns": "A lone send beside a question that asks for much",
    "store": "Reading, finding, recovering, many queues",
}
_FRONT = """# Benchmarks

ArianeMQ compared with other message queues, in turn on one machine, and then with what that
machine can do. `make bench` and `make bench-peers` write this page from `bench/results/`; do not
edit it. [bench/README.md](../bench/README.md) says how it is measured.
"""
_LIMITS_FRONT = """## ArianeMQ alone, compared with what the machine can do

A figure is worth something only next to its limit of the same run. "Of limit" is the fraction of
the limit's speed that we reach, pair by pair: the median and, in parentheses, the range.
"""
_REPEATED = ("ns/record at best", "ns/record limit at best", "% of limit at best")
"""Extra figures that repeat what the columns say."""


def write_page() -> Path:
    """Write the page and the figures of the README from all results; returns the page's path."""
    if peers_page.ROWS_PATH.exists():
        rows = json.loads(peers_page.ROWS_PATH.read_text())
        README_PATH.write_text(with_figures(README_PATH.read_text(), rows))
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
