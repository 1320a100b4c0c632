"""A picture of the delays: carriers against months, and beside it how late the latest tenth was."""

from __future__ import annotations

import calendar
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flight_demo.closed_form import DelayStatistics

MONTHS = 12
FLIGHTS_MIN = 20
"""A month with fewer departures than this tells nothing and stays blank."""

COLDEST, HOTTEST = -10, 40
"""Mean delays, in minutes, at the ends of the colour scale."""

DARK_BELOW, DARK_ABOVE = -5, 33
"""Beyond these the cell is so dark that its figure is written in white."""


def draw_delays(
    statistics: Mapping[str, DelayStatistics],
    airlines: Mapping[str, str],
    picture_path: Path,
    *,
    cache_folder: Path,
) -> None:
    """Draw `statistics` into `picture_path` (PNG).

    Args:
        statistics: By key, as they came out of the topic.
        airlines: Names by carrier code.
        picture_path: Where to; its folder is made.
        cache_folder: Where matplotlib may keep its fonts; nothing else is written.
    """
    os.environ["MPLCONFIGDIR"] = str(cache_folder)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - needs the folder
    from matplotlib.figure import Figure  # noqa: PLC0415 - the same

    whole = sorted(
        (entry for entry in statistics.values() if entry.month is None),
        key=lambda entry: entry.flights,
        reverse=True,
    )
    names = [f"{airlines.get(entry.carrier, '?')} ({entry.carrier})" for entry in whole]
    figure = Figure(figsize=(13, 7), layout="constrained")
    FigureCanvasAgg(figure)
    months_axes, worst_axes = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
    grid = _mean_delays(statistics, [entry.carrier for entry in whole])
    image = months_axes.imshow(grid, aspect="auto", cmap="RdYlBu_r", vmin=COLDEST, vmax=HOTTEST)
    months_axes.set_xticks(range(MONTHS), calendar.month_abbr[1:])
    months_axes.set_yticks(range(len(names)), names)
    for row, column in np.ndindex(grid.shape):
        mean = grid[row, column]
        if not np.isnan(mean):
            color = "black" if DARK_BELOW < mean < DARK_ABOVE else "white"
            label = f"{mean:.0f}"
            months_axes.text(column, row, label, ha="center", va="center", fontsize=8, color=color)
    months_axes.set_title("Mean departure delay, minutes")
    figure.colorbar(image, ax=months_axes, shrink=0.6, location="left", pad=0.01)
    worst_axes.barh(
        range(len(whole)), [entry.p90_departure_delay or 0.0 for entry in whole], color="#4575b4"
    )
    worst_axes.set_title("90th percentile, minutes")
    worst_axes.grid(axis="x", alpha=0.3)
    flights = sum(entry.flights for entry in whole)
    cancelled = sum(entry.cancelled for entry in whole)
    figure.suptitle(
        f"Flights from New York, 2013: {flights:,} scheduled, {cancelled:,} cancelled", fontsize=14
    )
    picture_path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture_path, dpi=110)


def _mean_delays(
    statistics: Mapping[str, DelayStatistics], carriers: list[str]
) -> npt.NDArray[np.float64]:
    """Return one row a carrier and one column a month; not a number where too little departed."""
    grid = np.full((len(carriers), MONTHS), np.nan)
    for row, carrier in enumerate(carriers):
        for month in range(1, MONTHS + 1):
            entry = statistics.get(f"{carrier}-{month:02}")
            if entry and entry.departed >= FLIGHTS_MIN and entry.mean_departure_delay is not None:
                grid[row, month - 1] = entry.mean_departure_delay
    return grid
