"""Ratios as a picture: a bar each, with its range, its floor and its goal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

_WIDTH, _LINE, _LEFT, _RIGHT = 960, 26, 560, 40
_LETTERS_MAX = 108
"""So many fit left of the bars, about."""


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


def _colour(ratio: float, floor: float | None) -> str:
    """Red below the floor, yellow where they are faster, green where we are."""
    if floor is not None and ratio < floor:
        return "#b5472f"
    return "#2b7a4b" if ratio >= 1 else "#c9a227"


def _bar(row: dict[str, Any], top: int, across: Any) -> Iterator[str]:
    middle = top + _LINE // 2
    begin, end = sorted((across(1.0), across(row["ratio"])))
    colour = _colour(row["ratio"], row["floor"])
    label = f"{row['work']}, beside {row['against']}"
    # A label that has no room is drawn closer.
    fitted = f' textLength="{_LEFT - 16}" lengthAdjust="spacingAndGlyphs"'
    yield (
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end" font-size="9.5"'
        f"{fitted if len(label) > _LETTERS_MAX else ''}>{escape(label)}</text>"
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
