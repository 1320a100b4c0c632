"""Faults on purpose are the faults that they say."""

import pytest
from flight_demo.events import FlightEvent
from flight_demo.work.publish import Sabotage, sabotaged


def events(text):
    """One event a letter pair: aircraft, number."""
    return [FlightEvent("departed", pair, pair[0], b"") for pair in text.split()]


@pytest.mark.parametrize(
    ("sabotage", "published"),
    [
        (Sabotage.LOSE, "b1 a2 b2 a3"),
        (Sabotage.REPEAT, "a1 a1 b1 a2 b2 a3"),
        (Sabotage.SWAP, "b1 a2 a1 b2 a3"),
    ],
)
def test_one_fault_with_the_first_aircraft(sabotage, published):
    faulty = sabotaged(events("a1 b1 a2 b2 a3"), sabotage)
    assert [event.key for event in faulty] == published.split()
