"""Where we lose: a line for each ratio that misses its floor or is below 1, with the CPU of both.

A row of times is here only when it misses its floor: its own table says the rest.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from of_limit import LIMITS

_FRONT = """### Where we lose, and why

Ratios below their floor come first, in bold; then the other works at which the peer is faster.
CPU is the processor time per message of all processes of a side, clients plus servers, and the
number of cores that they kept busy: medians over the pairs. Where both cores are busy, CPU time
decides; where they are not, waiting does."""


def losses(rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Any]) -> Iterator[str]:
    """The passage, from all rows and their runs; empty when we never lose."""
    below = [row for row in rows if row["floor"] is not None and row["ratio"] < row["floor"]]
    slower = [
        row
        for row in rows
        if row["ratio"] < 1
        and row["unit"] != "ms"
        and row["against"] not in LIMITS
        and row not in below
    ]
    if below or slower:
        yield _FRONT
        yield "\n".join(_table(below, slower, runs))


def _table(
    below: Sequence[Mapping[str, Any]],
    slower: Sequence[Mapping[str, Any]],
    runs: Mapping[str, Any],
) -> Iterator[str]:
    yield "| Work | Compared with | Ratio | Floor | CPU, ours | CPU, theirs |"
    yield "|---|---|---:|---:|---|---|"
    for row in (*below, *slower):
        ratio = f"**{row['ratio']:.3g}**" if row in below else f"{row['ratio']:.3g}"
        floor = "" if row["floor"] is None else f"{row['floor']:g}"
        legs = _legs_of(row, runs)
        cpu = (_cpu_words([leg for leg in legs if leg["side"] == side]) for side in _SIDES)
        yield f"| {' | '.join((row['work'], row['against'], ratio, floor, *cpu))} |"


_SIDES = ("ours", "theirs")


def _legs_of(row: Mapping[str, Any], runs: Mapping[str, Any]) -> list[dict[str, Any]]:
    for run in runs.values():
        if row["against"] in run.get("contenders", {}) and row["unit"] == "msg/s":
            legs = [leg for leg in run["legs"] if leg["work"] == row["work"]]
            if legs:
                return legs
    return []


def _cpu_words(legs: Sequence[Mapping[str, Any]]) -> str:
    """Processor time of clients and servers of one side, and how many cores that kept busy."""
    if not legs:
        return ""
    client, server = (
        statistics.median(leg[end]["cpu_s"] / leg["count"] * 1e6 for leg in legs)
        for end in ("client", "server")
    )
    cores = statistics.median(
        (leg["client"]["cpu_s"] + leg["server"]["cpu_s"]) / leg["seconds"] for leg in legs
    )
    return f"{_figure(client)} + {_figure(server)} µs, {cores:.1f} cores"


def _figure(us: float) -> str:
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}"
