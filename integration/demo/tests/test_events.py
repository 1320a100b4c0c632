"""The events: their order, their bodies, their number."""

import itertools
import json

import pytest
from flight_demo.closed_form import (
    WHOLE_YEAR,
    count_flights,
    count_message_groups,
    delay_statistics,
)
from flight_demo.events import EventKind, in_event_time_order, instant, iter_events
from flight_demo.flights import Flight, package_folder, read_airlines
from flight_demo.selection import Selection


@pytest.fixture(scope="module")
def week(year):
    return Selection(days=7).choose(year)


def flight(**changes):
    fields = {
        "flight_id": "2013-01-01-UA-1545-EWR",
        "carrier": "UA",
        "number": "1545",
        "tail_number": "N14228",
        "origin": "EWR",
        "destination": "IAH",
        "month": 1,
        "scheduled_departure": 1000,
        "departure_delay": 2,
        "arrival_delay": 11,
        "arrival": 1250,
    }
    return Flight(**{**fields, **changes})


CANCELLED = {"departure_delay": None, "arrival_delay": None, "arrival": None}


def events_of(*flights):
    return [json.loads(event.body) for event in iter_events(flights, in_event_time_order(flights))]


def test_the_year_has_the_published_totals(year):
    assert count_flights(year) == WHOLE_YEAR
    assert (WHOLE_YEAR.departed, WHOLE_YEAR.diverted, WHOLE_YEAR.events) == (
        328_521,
        1_175,
        1_002_073,
    )
    assert count_message_groups(year) == 4_043 + 2_512
    assert len({each.flight_id for each in year}) == len(year)


def test_the_first_flight_is_read_right(year):
    first = year[0]
    assert first.flight_id == "2013-01-01-UA-1545-EWR"
    assert instant(first.scheduled_departure) == "2013-01-01T10:15:00Z"
    # 8:30 in Houston, which is an hour behind New York.
    assert instant(first.arrival) == "2013-01-01T14:30:00Z"
    assert (first.departure_delay, first.arrival_delay) == (2, 11)


def test_no_flight_arrives_before_it_departs_or_a_day_later(year):
    for each in year:
        if each.arrival is not None:
            minutes = each.arrival - each.scheduled_departure - each.departure_delay
            assert 0 < minutes < 16 * 60


def test_the_board_always_comes_first(year):
    earliest = min(each.departure_delay for each in year if not each.cancelled)
    assert earliest == -43


def test_events_lie_in_order_of_time_and_are_numbered(week):
    events = events_of(*week)
    assert [event["sequence"] for event in events] == list(range(count_flights(week).events))
    times = [event["event_time"] for event in events]
    assert times == sorted(times)


def test_each_flight_makes_its_events_in_their_order():
    assert [event["event"] for event in events_of(flight())] == ["scheduled", "departed", "arrived"]
    assert [event["event"] for event in events_of(flight(**CANCELLED))] == [
        "scheduled",
        "cancelled",
    ]
    assert [event["event"] for event in events_of(flight(arrival_delay=None))] == [
        "scheduled",
        "departed",
        "diverted",
    ]


def test_two_flights_of_one_minute_keep_their_own_order():
    events = events_of(flight(), flight(flight_id="2013-01-01-UA-1546-EWR"))
    assert [event["flight"][14:18] for event in events] == ["1545", "1546"] * 3


def test_a_body_is_the_json_of_its_event():
    [scheduled, departed, arrived] = iter_events([flight()], in_event_time_order([flight()]))
    assert json.loads(departed.body) == {
        "sequence": 1,
        "event": "departed",
        "event_time": "1970-01-01T16:42:00Z",
        "flight": "2013-01-01-UA-1545-EWR",
        "carrier": "UA",
        "number": 1545,
        "tail_number": "N14228",
        "origin": "EWR",
        "destination": "IAH",
        "scheduled_departure": "1970-01-01T16:40:00Z",
        "departure_delay": 2,
    }
    assert json.loads(arrived.body)["arrival_delay"] == 11
    assert (departed.tag, departed.key, departed.message_group) == (
        "departed",
        "2013-01-01-UA-1545-EWR",
        "N14228",
    )
    for event in (scheduled, departed, arrived):
        assert 150 <= len(event.body) <= 300
        compact = json.dumps(json.loads(event.body), separators=(",", ":")).encode()
        assert event.body == compact


def test_a_flight_without_an_aircraft_is_its_own_group():
    [event, *_] = iter_events(
        [flight(tail_number="")], in_event_time_order([flight(tail_number="")])
    )
    assert event.message_group == event.key
    assert json.loads(event.body)["tail_number"] is None


def test_a_selection_takes_whole_flights(year, week):
    assert count_flights(week).events == 18_262
    first = Selection(events_min=5_000).choose(year)
    events = count_flights(first).events
    assert 5_000 <= events <= 5_002
    scheduled = [each.scheduled_departure for each in first]
    assert all(a <= b for a, b in itertools.pairwise(scheduled))
    assert len(Selection.of_months(1).choose(year)) == 27_004
    assert Selection.of_months(12).whole_year


def test_statistics_add_up_to_the_totals(year):
    statistics = delay_statistics(year)
    carriers = [entry for entry in statistics.values() if entry.month is None]
    months = [entry for entry in statistics.values() if entry.month is not None]
    assert {entry.carrier for entry in carriers} == set(read_airlines(package_folder()))
    for part in (carriers, months):
        assert sum(entry.flights for entry in part) == WHOLE_YEAR.scheduled
        assert sum(entry.departed for entry in part) == WHOLE_YEAR.departed
        assert sum(entry.cancelled for entry in part) == WHOLE_YEAR.cancelled


def test_statistics_of_a_small_month_are_exact():
    flights = [flight(departure_delay=minutes) for minutes in range(11)]
    entry = delay_statistics([*flights, flight(**CANCELLED)])["UA-01"]
    assert (entry.flights, entry.departed, entry.cancelled) == (12, 11, 1)
    assert entry.mean_departure_delay == pytest.approx(5.0)
    assert entry.p90_departure_delay == pytest.approx(9.0)
    nothing_left = delay_statistics([flight(**CANCELLED)])["UA"]
    assert nothing_left.mean_departure_delay is None


def test_kinds_are_counted_by_their_tags():
    assert sum(WHOLE_YEAR.of_kind(kind) for kind in EventKind) == WHOLE_YEAR.events
