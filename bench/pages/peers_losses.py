"""Where we lose: a line for each ratio that misses its floor or is below 1, with the CPU of both.

A row of times is here only when it misses its floor: its own table says the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.pages.of_limit import LIMITS

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
        sides = _sides_of(row, runs)
        cpu = (_cpu_words(sides[side]) if side in sides else "" for side in ("ours", "theirs"))
        yield f"| {' | '.join((row['work'], row['against'], ratio, floor, *cpu))} |"


def _sides_of(row: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    for run in runs.values():
        if row["against"] in run.get("contenders", {}) and row["unit"] == "msg/s":
            sides = {side["side"]: side for side in run["sides"] if side["work"] == row["work"]}
            if sides:
                return sides
    return {}


def _cpu_words(side: Mapping[str, Any]) -> str:
    """Processor time of clients and servers of one side, and how many cores that kept busy."""
    client, server = _figure(side["client_cpu_us"]), _figure(side["server_cpu_us"])
    return f"{client} + {server} µs, {side['cores']:.1f} cores"


def _figure(us: float) -> str:
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}"
