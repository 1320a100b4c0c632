"""The ledger notices what it exists to notice."""

import dataclasses

import pytest
from flight_demo.events import in_event_time_order, iter_events
from flight_demo.selection import Selection
from flight_demo.work.ledger import Ledger, LedgerTotals


@dataclasses.dataclass(frozen=True)
class Queue:
    broker_name: str = "broker-a"
    queue_id: int = 0


@dataclasses.dataclass(frozen=True)
class Received:
    body: bytes
    tag: str
    message_group: str
    queue_offset: int
    message_queue: Queue = Queue()


@pytest.fixture(scope="module")
def day(year):
    flights = Selection(days=1).choose(year)
    return [
        Received(event.body, event.tag, event.message_group, queue_offset)
        for queue_offset, event in enumerate(iter_events(flights, in_event_time_order(flights)))
    ]


def totals_after(day, *batches):
    ledger = Ledger(len(day))
    for batch in batches:
        ledger.take(batch)
    return ledger.totals()


def faults(totals):
    return {
        name: getattr(totals, name)
        for name in ("duplicates", "backwards", "strangers", "offset_gaps", "offset_repeats")
        if getattr(totals, name)
    }


def test_a_day_in_order_has_no_fault(day):
    totals = totals_after(day, day[:1000], day[1000:])
    assert faults(totals) == {}
    assert totals.distinct == len(day)
    assert totals.message_groups == len({message.message_group for message in day})


def test_a_repeated_batch_is_counted(day):
    totals = totals_after(day, day, day[-10:])
    assert faults(totals) == {"duplicates": 10, "offset_repeats": 10}
    assert totals.distinct == len(day)


def test_an_event_sent_twice_is_a_duplicate_at_a_new_place(day):
    again = dataclasses.replace(day[-1], queue_offset=len(day))
    assert faults(totals_after(day, [*day, again])) == {"duplicates": 1}


def test_a_lost_message_is_a_gap(day):
    totals = totals_after(day, day[:100] + day[101:])
    assert faults(totals) == {"offset_gaps": 1}
    assert totals.distinct == len(day) - 1


def test_two_events_of_an_aircraft_that_change_places_go_backwards(day):
    group = next(m.message_group for m in day)
    first, second = [place for place, m in enumerate(day) if m.message_group == group][:2]
    swapped = list(day)
    swapped[first], swapped[second] = (
        dataclasses.replace(day[second], queue_offset=first),
        dataclasses.replace(day[first], queue_offset=second),
    )
    assert faults(totals_after(day, swapped)) == {"backwards": 1}


def test_a_message_under_a_false_tag_is_a_stranger(day):
    wrong = [dataclasses.replace(day[0], tag="arrived"), *day[1:]]
    assert faults(totals_after(day, wrong)) == {"strangers": 1}


def test_queues_are_followed_apart(day):
    other = [
        dataclasses.replace(message, message_queue=Queue("broker-b", 0), queue_offset=place)
        for place, message in enumerate(day[1000:])
    ]
    assert faults(totals_after(day, day[:1000], other)) == {}


def test_totals_of_members_add_up_and_travel_as_text(day):
    one, two = totals_after(day, day[:1000]), totals_after(day, day[1000:], day[-1:])
    both = LedgerTotals.sum(LedgerTotals.from_json(part.to_json()) for part in (one, two))
    assert both.distinct == len(day)
    assert both.duplicates == 1
    assert both.offset_gaps == 1000
