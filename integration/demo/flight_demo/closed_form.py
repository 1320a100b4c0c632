"""What must come out, worked out from the flights alone: no event, queue or Spark has a part in it.

With S flights scheduled, C of them cancelled and A arrived where they should::

    departed  D = S - C
    diverted  V = D - A
    events    E = S + (D + C) + (A + V) = 2 S + D

For the whole year S = 336,776, C = 8,255 and A = 327,346 (flights with a delay at arrival), hence
D = 328,521, V = 1,175 and E = 1,002,073.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flight_demo.events import EventKind
from flight_demo.flights import Flight
from flight_demo.work.late import count_late


@dataclass(frozen=True, slots=True)
class FlightTotals:
    """Three counts from which all others follow."""

    scheduled: int
    cancelled: int
    arrived: int

    @property
    def departed(self) -> int:
        """Flights that left."""
        return self.scheduled - self.cancelled

    @property
    def diverted(self) -> int:
        """Flights that left and did not arrive where they should."""
        return self.departed - self.arrived

    @property
    def events(self) -> int:
        """All events."""
        return 2 * self.scheduled + self.departed

    def of_kind(self, kind: EventKind) -> int:
        """Return how many events of `kind` there are."""
        return int(getattr(self, kind.tag))


WHOLE_YEAR = FlightTotals(scheduled=336_776, cancelled=8_255, arrived=327_346)
"""The published counts of the source."""


@dataclass(frozen=True, slots=True)
class DelayStatistics:
    """How late the flights of one carrier left, in one month or in the whole time."""

    carrier: str

    month: int | None
    """1 to 12. None: the whole time."""

    flights: int
    departed: int
    cancelled: int

    mean_departure_delay: float | None
    """Minutes, early departures counted as negative. None when nothing departed."""

    p90_departure_delay: float | None
    """Minutes; nine of ten departures were at most this late. None when nothing departed."""

    @property
    def key(self) -> str:
        """The message's key: ``UA`` for the whole time, ``UA-07`` for July."""
        return self.carrier if self.month is None else f"{self.carrier}-{self.month:02}"

    def agrees_with(self, other: DelayStatistics) -> bool:
        """Whether all counts are equal and the delays are, but for the last bits of a float."""
        counts = (self.key, self.flights, self.departed, self.cancelled)
        return counts == (other.key, other.flights, other.departed, other.cancelled) and all(
            _close(mine, theirs)
            for mine, theirs in (
                (self.mean_departure_delay, other.mean_departure_delay),
                (self.p90_departure_delay, other.p90_departure_delay),
            )
        )


@dataclass(frozen=True, slots=True)
class Expectation:
    """All that is known beforehand about a run."""

    totals: FlightTotals

    message_groups: int
    """Aircraft, and flights that do not tell theirs."""

    late: int
    """Departures that the filters are to let through."""

    statistics: Mapping[str, DelayStatistics]
    """What the topic ``delays`` must hold, by key."""

    @classmethod
    def of(cls, flights: Sequence[Flight]) -> Expectation:
        """Work it out from the flights of the run."""
        return cls(
            count_flights(flights),
            count_message_groups(flights),
            count_late(flights),
            delay_statistics(flights),
        )


def count_flights(flights: Iterable[Flight]) -> FlightTotals:
    """Count `flights` by what became of them."""
    scheduled = cancelled = arrived = 0
    for flight in flights:
        scheduled += 1
        cancelled += flight.departure_delay is None
        arrived += flight.arrival_delay is not None
    return FlightTotals(scheduled, cancelled, arrived)


def count_message_groups(flights: Iterable[Flight]) -> int:
    """Count the message groups: aircraft, and flights that do not tell theirs."""
    return len({flight.tail_number or flight.flight_id for flight in flights})


def delay_statistics(flights: Iterable[Flight]) -> Mapping[str, DelayStatistics]:
    """Return the statistics of every carrier and of every carrier's months, by their keys."""
    delays: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    cancelled: dict[tuple[str, int | None], int] = defaultdict(int)
    for flight in flights:
        for span in ((flight.carrier, None), (flight.carrier, flight.month)):
            if flight.departure_delay is None:
                cancelled[span] += 1
            else:
                delays[span].append(flight.departure_delay)
    statistics = (
        _statistics(carrier, month, delays[carrier, month], cancelled[carrier, month])
        for carrier, month in delays.keys() | cancelled.keys()
    )
    return {entry.key: entry for entry in statistics}


def _statistics(
    carrier: str, month: int | None, delays: list[int], cancelled: int
) -> DelayStatistics:
    return DelayStatistics(
        carrier=carrier,
        month=month,
        flights=len(delays) + cancelled,
        departed=len(delays),
        cancelled=cancelled,
        mean_departure_delay=sum(delays) / len(delays) if delays else None,
        p90_departure_delay=float(np.percentile(delays, 90)) if delays else None,
    )


def _close(mine: float | None, theirs: float | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9)
