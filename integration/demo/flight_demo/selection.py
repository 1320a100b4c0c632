"""Which flights a run takes: the whole year or its beginning, always whole flights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from flight_demo.flights import Flight

DAYS_OF_THE_YEAR = 365


@dataclass(frozen=True, slots=True)
class Selection:
    """The flights of the first `days`, and of those no more than `events_min` events need."""

    days: int = DAYS_OF_THE_YEAR
    """Local days from the first of January, 1 to 365."""

    events_min: int | None = None
    """Stop after the flight that completes so many events. None: do not."""

    @classmethod
    def of_months(cls, months: int) -> Selection:
        """Select the first `months` of the year, 1 to 12."""
        end = date(2013 + months // 12, months % 12 + 1, 1)
        return cls(days=(end - date(2013, 1, 1)).days)

    @property
    def whole_year(self) -> bool:
        """Whether nothing is left out."""
        return self.days == DAYS_OF_THE_YEAR and self.events_min is None

    def choose(self, flights: Iterable[Flight]) -> Sequence[Flight]:
        """Return the chosen flights, sorted by scheduled departure and id."""
        end = date(2013, 1, 1) + timedelta(days=self.days)
        last_date = end.isoformat()
        chosen = [flight for flight in flights if flight.flight_id < last_date]
        chosen.sort(key=lambda flight: (flight.scheduled_departure, flight.flight_id))
        if self.events_min is None:
            return chosen
        events = 0
        for place, flight in enumerate(chosen):
            events += 2 if flight.cancelled else 3
            if events >= self.events_min:
                return chosen[: place + 1]
        return chosen
