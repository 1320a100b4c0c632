"""Aircraft and hourly weather, from the same package as the flights.

Four fifths of the flights have their aircraft in the list, and nearly all their hour of weather:
joins meet what is missing, as they do in life.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNKNOWN = "unknown"
LOW_VISIBILITY, WET, FAIR = "low visibility", "wet", "fair"

VISIBILITY_MILES_MIN = 3.0
"""Below it, pilots fly by instruments."""


class Plane(NamedTuple):
    """One aircraft."""

    tail_number: str
    manufacturer: str
    seats: int


class WeatherHour(NamedTuple):
    """One hour at one airport."""

    origin: str

    hour: str
    """``2013-02-08T17:00:00Z``."""

    conditions: str
    """``low visibility``, ``wet`` or ``fair``."""


def iter_planes(folder: Path) -> Iterator[Plane]:
    """Yield the 3,322 aircraft."""
    with (folder / "planes.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield Plane(row["tailnum"], row["manufacturer"], int(row["seats"]))


def iter_weather(folder: Path) -> Iterator[WeatherHour]:
    """Yield the 26,115 hours; no hour of an airport comes twice."""
    with (folder / "weather.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if float(row["visib"]) < VISIBILITY_MILES_MIN:
                conditions = LOW_VISIBILITY
            else:
                conditions = WET if float(row["precip"]) > 0 else FAIR
            yield WeatherHour(row["origin"], row["time_hour"], conditions)
