"""Ourselves beside other message queues, for the page: a table, a picture, and who was skipped.

Made from ``results/latest.json`` and ``latest-runs.json``, which ``make bench-peers`` keeps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from measure import RESULTS_PATH

ROWS_PATH = RESULTS_PATH / "latest.json"
RUNS_PATH = RESULTS_PATH / "latest-runs.json"
PICTURE_PATH = Path(__file__).parents[1] / "docs" / "pictures" / "peers.svg"
LIMITS = ("copying the bytes", "the bytes through a socket", "the bytes as bare gRPC calls")
_FRONT = """## Beside other message queues

Written by `make bench-peers`. Both sides run on this machine, with all their processes, and are
asked in turn; each pair gives one ratio, ours over theirs, above 1 where we are faster: the median,
and the range in parentheses. All that was sent was consumed again and compared. "Lost" is what of
ours was not acknowledged, did not come, or came altered."""
_WIDTH, _LINE, _LEFT, _RIGHT = 960, 26, 560, 40


def section() -> str:
    """The part of the page; empty while nothing was measured. Draws the picture anew."""
    if not ROWS_PATH.exists():
        return ""
    rows = json.loads(ROWS_PATH.read_text())
    runs = json.loads(RUNS_PATH.read_text()) if RUNS_PATH.exists() else {}
    peers = [row for row in rows if row["against"] not in LIMITS]
    parts = [_FRONT]
    if peers:
        PICTURE_PATH.write_text(picture_of(peers))
        parts.append("![Ratios to other message queues](pictures/peers.svg)")
        parts.append("\n".join(_table(peers, "Theirs")))
    parts.extend(_passages(peers, runs))
    limits = [row for row in rows if row["against"] in LIMITS]
    if limits:
        parts.append("The same works beside what the machine can do with their bytes:")
        parts.append("\n".join(_table(limits, "Limit")))
    return "\n\n".join(parts)


def _table(rows: Sequence[dict[str, Any]], theirs: str) -> Iterator[str]:
    yield f"| Work | Beside | Ours | {theirs} | Ratio | Floor | Goal | Lost |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        cells = (
            row["work"],
            row["against"],
            f"{row['ours']:,.0f} {row['unit']}",
            f"{row['theirs']:,.0f}",
            f"{row['ratio']:.2g} ({row['ratio_min']:.2g} to {row['ratio_max']:.2g})",
            _target(row["floor"]),
            _target(row["goal"]),
            str(row["lost"]),
        )
        yield f"| {' | '.join(cells)} |"


def _passages(peers: Sequence[dict[str, Any]], runs: dict[str, Any]) -> Iterator[str]:
    """Where we lose, who was skipped, and what it was measured on."""
    slower = [row for row in peers if row["ratio"] < 1]
    if slower:
        lines = [f"- {row['work']}: {row['ratio']:.2g} of {row['against']}" for row in slower]
        yield "Where we are slower:\n\n" + "\n".join(lines)
    skipped = [f"- {key}: {run['skipped']}" for key, run in runs.items() if "skipped" in run]
    if skipped:
        yield "Skipped here:\n\n" + "\n".join(skipped)
    if peers:
        machine = ", ".join(f"{name} {value}" for name, value in peers[0]["machine"].items())
        begin, end = min(row["when"] for row in peers), max(row["when"] for row in peers)
        pairs = sorted({row["pairs"] for row in peers})
        quick = any(run.get("quick") for run in runs.values())
        yield (
            f"{begin} to {end}; {machine}; pairs: {', '.join(map(str, pairs))}"
            f"{'; a quick run, with few messages' if quick else ''}."
        )


def _target(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:g}"


def picture_of(rows: Sequence[dict[str, Any]]) -> str:
    """Ratios as an SVG: a bar to the median, a line over the range, ticks at floor and goal.

    The scale is logarithmic: twice as fast is as far from 1 as half as fast.
    """
    said = [row[name] for row in rows for name in ("ratio_min", "ratio_max", "floor", "goal")]
    known = [ratio for ratio in said if ratio]
    low = math.floor(math.log2(min(*known, 0.5)))
    high = math.ceil(math.log2(max(*known, 2.0)))
    scale = (_WIDTH - _LEFT - _RIGHT) / (high - low)

    def across(ratio: float) -> float:
        return round(_LEFT + (math.log2(ratio) - low) * scale, 1)

    height = _LINE * (len(rows) + 2)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for power in range(low, high + 1):
        place = across(2.0**power)
        strong = "#555555" if power == 0 else "#dddddd"
        parts += [
            f'<path d="M{place} {_LINE}V{height - _LINE}" stroke="{strong}"/>',
            f'<text x="{place}" y="{height - 8}" text-anchor="middle">{2.0**power:g}</text>',
        ]
    for number, row in enumerate(rows):
        parts += _bar(row, _LINE * (number + 1), across)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(row: dict[str, Any], top: int, across: Any) -> Iterator[str]:
    middle = top + _LINE // 2
    begin, end = sorted((across(1.0), across(row["ratio"])))
    floor = row["floor"]
    colour = "#2b7a4b" if row["ratio"] >= (floor or 1.0) else "#b5472f"
    label = escape(f"{row['work']}, beside {row['against']}")
    yield (
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end" font-size="9.5">{label}</text>'
    )
    size = f'width="{round(end - begin, 1)}" height="12"'
    yield f'<rect x="{begin}" y="{top + 7}" {size} fill="{colour}"/>'
    yield (
        f'<path d="M{across(row["ratio_min"])} {middle}H{across(row["ratio_max"])}" '
        'stroke="#222222"/>'
    )
    for name, dash in (("floor", ""), ("goal", ' stroke-dasharray="3 2"')):
        if row[name] is not None:
            yield f'<path d="M{across(row[name])} {top + 3}v20" stroke="#1f4e8c"{dash}/>'
