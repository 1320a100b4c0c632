"""When alerts are raised and end, by a clock of the test's."""

import pytest

from ariane_admin.alerts.bounds import Bounds, Watched

LAG = 1
BILLING = Watched(LAG, "billing")


@pytest.fixture
def bounds():
    return Bounds({LAG: 10.0}, patience_s=60)


def test_a_figure_is_an_alert_once_it_is_out_of_bounds_for_long_enough(bounds):
    assert not bounds.look({BILLING: 11.0}, 0).raised
    assert not bounds.look({BILLING: 12.0}, 59).raised
    assert bounds.look({BILLING: 13.0}, 60).raised == {BILLING: 13.0}
    again = bounds.look({BILLING: 14.0}, 90)
    assert (again.raised, again.standing) == ({}, {BILLING: 14.0})
    ended = bounds.look({BILLING: 10.0}, 120)
    assert set(ended.ended) == {BILLING}
    assert bounds.standing == frozenset()


def test_a_figure_that_comes_back_begins_anew(bounds):
    bounds.look({BILLING: 11.0}, 0)
    bounds.look({BILLING: 0.0}, 30)
    assert not bounds.look({BILLING: 11.0}, 61).raised
    assert bounds.look({BILLING: 11.0}, 121).raised


def test_what_is_not_known_changes_nothing(bounds):
    bounds.look({BILLING: 11.0}, 0)
    assert not bounds.look({BILLING: None}, 70).raised
    assert bounds.look({BILLING: 11.0}, 71).raised
    unknown = bounds.look({BILLING: None}, 80)
    assert not unknown.ended
    assert bounds.standing == {BILLING}


def test_what_is_gone_ends_and_what_is_not_watched_is_none(bounds):
    bounds.look({BILLING: 11.0}, 0)
    bounds.look({BILLING: 11.0}, 60)
    other = Watched(2, "billing")
    gone = bounds.look({other: 1e9}, 61)
    assert set(gone.ended) == {BILLING}
    assert not bounds.look({other: 1e9}, 600).raised


def test_alerts_that_stood_before_a_start_are_not_raised_again():
    bounds = Bounds({LAG: 10.0}, patience_s=0, standing=[BILLING])
    turns = bounds.look({BILLING: 11.0}, 0)
    assert (turns.raised, turns.standing) == ({}, {BILLING: 11.0})
