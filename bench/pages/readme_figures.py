"""The figures of the front page: for each peer the best and the worst ratio of the results.

``benchmarks.py`` writes them into ``README.md``, between two comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from bench.pages.peers_overview import compared, current, newer_ones, short

README_PATH = Path(__file__).parents[2] / "README.md"
BEGIN = "<!-- Figures: written by bench/pages from bench/results. -->"
END = "<!-- End of the figures. -->"

_PEERS = (
    "Spark's Kafka connector",
    "RocketMQ",
    "Kafka",
    "NATS JetStream",
    "RabbitMQ quorum queues",
    "Redis Streams",
)
"""The first name that a row's peer contains is the one that it is shown under."""
_SHOWN = ("RocketMQ", "Kafka", *_PEERS[3:], _PEERS[0])


def with_figures(readme: str, rows: Sequence[dict[str, Any]]) -> str:
    """The front page with the figures of these results."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((before + BEGIN, "", *_figures(rows), "", END + after))


def _figures(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    speeds = compared(rows)
    counted = current(speeds)
    faster = sum(row["ratio"] >= 1 for row in counted)
    cores = speeds[0]["machine"]["cores"]
    yield (
        f"**Faster in {faster} of {len(counted)} comparisons** with other queues and their clients."
        f" Both sides ran in turn on\none machine with {cores} cores. A ratio is our messages per"
        f" second divided by theirs.\n{fill(newer_ones(speeds), 100)}\n"
    )
    yield "| Compared with | Faster in | Best ratio | Worst ratio |"
    yield "|---|---:|---|---|"
    for name in _SHOWN:
        of_peer = sorted((row for row in speeds if _peer(row) == name), key=_ratio)
        if of_peer:
            share = f"{sum(row['ratio'] >= 1 for row in of_peer)} of {len(of_peer)}"
            yield f"| {_label(of_peer[0])} | {share} | {_cell(of_peer[-1])} | {_cell(of_peer[0])} |"


def _peer(row: dict[str, Any]) -> str:
    return next(name for name in _PEERS if name in row["against"])


def _label(row: dict[str, Any]) -> str:
    """The peer and its version, without the client that it was driven by."""
    if _peer(row) == _PEERS[0]:
        return str(row["against"])
    found = re.search(rf"{re.escape(_peer(row))} [\d.]+", row["against"])
    return found[0] if found else _peer(row)


def _cell(row: dict[str, Any]) -> str:
    driven = row["against"].replace(_label(row), "").replace(" to ", "").strip(", ")
    return f"**{row['ratio']:.2g}**: {short(row['work'])}{f' ({driven})' if driven else ''}"


def _ratio(row: dict[str, Any]) -> float:
    return float(row["ratio"])
