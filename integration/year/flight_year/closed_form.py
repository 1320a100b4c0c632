"""What must come out, worked out from the flights alone: no event, queue or Spark has a part in it.

::

    statistics   a flight's hour at its airport has some weather, its aircraft some manufacturer:
                 every flight counts in exactly one weather and, if it left, one manufacturer
    rotations    an aircraft's departures and arrivals, in the order of their time, cut wherever
                 more than GAP_SECONDS pass: a session each. Those that end too late for the
                 watermark are open
    storm        what happened on the local day with the most cancellations
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from flight_demo.closed_form import FlightTotals, count_flights
from flight_demo.events import BOARD_LEAD_MINUTES, EventKind, instant
from flight_demo.flights import Flight

from flight_year.sources import UNKNOWN, Plane, WeatherHour

GAP_SECONDS = 8 * 3600 + 30
"""So long on the ground ends a rotation. Not a whole minute: no pause is just as long."""

WATERMARK_MINUTES = 14 * 1440
"""Queues of one topic are read at different pace, some days of a year apart."""

_NEW_YORK = ZoneInfo("America/New_York")

Figures = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rotation:
    """What one aircraft does between two long stays. Minutes count from 1970-01-01T00:00Z."""

    tail_number: str
    begin: int
    end: int
    departures: int
    arrivals: int
    diversions: int

    @property
    def events(self) -> int:
        """All that happened in it."""
        return self.departures + self.arrivals + self.diversions

    @property
    def checksum(self) -> int:
        """A number that changes with each of its fields; Spark computes the same."""
        fields = (
            self.tail_number,
            instant(self.begin),
            instant(self.end),
            self.departures,
            self.arrivals,
        )
        return zlib.crc32("|".join(map(str, fields)).encode())


@dataclass(frozen=True, slots=True)
class StormDay:
    """The local day with the most cancellations. Minutes count from 1970-01-01T00:00Z."""

    day: str
    begin: int
    end: int
    events: Mapping[EventKind, int]


@dataclass(frozen=True, slots=True)
class Expectation:
    """All that is known beforehand about a run."""

    totals: FlightTotals

    by_weather: Mapping[str, Figures]
    """``EWR/wet`` to flights scheduled, cancelled and departed, and their minutes late."""

    by_manufacturer: Mapping[str, Figures]
    """Manufacturer to flights departed and seats flown."""

    closed: Sequence[Rotation]
    """Rotations that are over by the watermark."""

    open: Sequence[Rotation]
    """The others."""

    storm: StormDay

    @classmethod
    def of(
        cls,
        flights: Sequence[Flight],
        planes: Iterable[Plane],
        weather: Iterable[WeatherHour],
    ) -> Expectation:
        """Work it out."""
        rotations = list(iter_rotations(flights))
        latest = max(rotation.end for rotation in rotations)
        closed: list[Rotation] = []
        still_open: list[Rotation] = []
        for rotation in rotations:
            over = rotation.end + GAP_SECONDS / 60 <= latest - WATERMARK_MINUTES
            (closed if over else still_open).append(rotation)
        return cls(
            count_flights(flights),
            count_by_weather(flights, weather),
            count_by_manufacturer(flights, planes),
            closed,
            still_open,
            storm_day(flights),
        )


def count_by_weather(
    flights: Iterable[Flight], weather: Iterable[WeatherHour]
) -> Mapping[str, Figures]:
    """Count flights by the weather of their airport in the hour of their scheduled departure."""
    conditions = {(hour.origin, hour.hour): hour.conditions for hour in weather}
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for flight in flights:
        hour = instant(flight.scheduled_departure // 60 * 60)
        entry = counts[f"{flight.origin}/{conditions.get((flight.origin, hour), UNKNOWN)}"]
        entry[0] += 1
        if flight.departure_delay is None:
            entry[1] += 1
        else:
            entry[2] += 1
            entry[3] += flight.departure_delay
    return {key: tuple(entry) for key, entry in counts.items()}


def count_by_manufacturer(
    flights: Iterable[Flight], planes: Iterable[Plane]
) -> Mapping[str, Figures]:
    """Count flights that left, and their seats, by who made the aircraft."""
    known = {plane.tail_number: plane for plane in planes}
    departed: Counter[str] = Counter()
    seats: Counter[str] = Counter()
    for flight in flights:
        if flight.departure_delay is None:
            continue
        plane = known.get(flight.tail_number, Plane("", UNKNOWN, 0))
        departed[plane.manufacturer] += 1
        seats[plane.manufacturer] += plane.seats
    return {maker: (departed[maker], seats[maker]) for maker in departed}


def iter_rotations(flights: Iterable[Flight]) -> Iterator[Rotation]:
    """Yield the rotations of all aircraft that tell their tail number."""
    moves: dict[str, list[tuple[int, EventKind]]] = defaultdict(list)
    for flight in flights:
        if flight.tail_number:
            moves[flight.tail_number] += (
                move for move in moves_of(flight) if move[1] is not EventKind.SCHEDULED
            )
    for tail_number, happened in moves.items():
        happened.sort()
        first = 0
        for at in range(1, len(happened) + 1):
            if at == len(happened) or (happened[at][0] - happened[at - 1][0]) * 60 > GAP_SECONDS:
                kinds = Counter(kind for _, kind in happened[first:at])
                yield Rotation(
                    tail_number,
                    happened[first][0],
                    happened[at - 1][0],
                    kinds[EventKind.DEPARTED],
                    kinds[EventKind.ARRIVED],
                    kinds[EventKind.DIVERTED],
                )
                first = at


def moves_of(flight: Flight) -> Iterator[tuple[int, EventKind]]:
    """Yield when what happened to a flight; a cancellation moves nothing and is left out."""
    yield flight.scheduled_departure - BOARD_LEAD_MINUTES, EventKind.SCHEDULED
    if flight.departure_delay is not None and flight.arrival is not None:
        yield flight.scheduled_departure + flight.departure_delay, EventKind.DEPARTED
        yield flight.arrival, EventKind.DIVERTED if flight.diverted else EventKind.ARRIVED


def storm_day(flights: Sequence[Flight]) -> StormDay:
    """Find the local day with the most cancellations, and count what happened on it."""
    cancelled = Counter(flight.flight_id[:10] for flight in flights if flight.cancelled)
    day = max(sorted(cancelled), key=cancelled.__getitem__)
    midnight = datetime.combine(date.fromisoformat(day), time(), _NEW_YORK)
    begin, end = (int((midnight + timedelta(days=days)).timestamp()) // 60 for days in (0, 1))
    events: Counter[EventKind] = Counter()
    for flight in flights:
        happened = [*moves_of(flight)]
        if flight.cancelled:
            happened.append((flight.scheduled_departure, EventKind.CANCELLED))
        events.update(kind for minute, kind in happened if begin <= minute < end)
    return StormDay(day, begin, end, {kind: events[kind] for kind in EventKind})
