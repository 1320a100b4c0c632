"""Series drawn as SVG, without a script. Colours come from the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

WIDTH: Final = 480
HEIGHT: Final = 130
_LEFT: Final = 46
_BOTTOM: Final = 18
_TOP: Final = 8


def line_chart(points: Sequence[tuple[int, float]], label: str, *, gap_ms: int) -> Markup:
    """A line over time, with its greatest value and its ends named.

    Args:
        points: Milliseconds since 1970 and value, oldest first.
        label: The text for screen readers.
        gap_ms: Points further apart than this are not joined: there are no samples between them.
    """
    if not points:
        return Markup('<p class="quiet">No samples yet.</p>')
    begin, end = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    span_ms = max(1, end - begin)

    def place(time_ms: int, value: float) -> tuple[float, float]:
        x = _LEFT + (time_ms - begin) / span_ms * (WIDTH - _LEFT - 4)
        y = _TOP + (1 - value / top) * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    runs: list[list[tuple[float, float]]] = []
    last_ms: int | None = None
    for time_ms, value in points:
        if last_ms is None or time_ms - last_ms > gap_ms:
            runs.append([])
        runs[-1].append(place(time_ms, value))
        last_ms = time_ms
    floor = HEIGHT - _BOTTOM
    drawn = []
    for run in runs:
        line = " ".join(f"{x},{y}" for x, y in run)
        if len(run) == 1:
            drawn.append(f'<circle class="line" cx="{run[0][0]}" cy="{run[0][1]}" r="1.5"/>')
            continue
        area = f"{run[0][0]},{floor} {line} {run[-1][0]},{floor}"
        drawn.append(f'<polygon class="area" points="{area}"/>')
        drawn.append(f'<polyline class="line" points="{line}"/>')
    now = f"{label}, now {_short(points[-1][1])}, at most {_short(top)}"
    return Markup(  # noqa: S704 - all that comes from elsewhere is escaped, the rest are numbers
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(now)}">'
        f'<line class="axis" x1="{_LEFT}" y1="{floor}" x2="{WIDTH}" y2="{floor}"/>'
        f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{_short(top)}</text>'
        f'<text x="{_LEFT - 4}" y="{floor}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{HEIGHT - 4}">{_clock(begin)}</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end">{_clock(end)} UTC</text>'
        f"{''.join(drawn)}</svg>"
    )


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M")


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"
