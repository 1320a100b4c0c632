"""Alerts in SQLite and PostgreSQL."""

import pytest

from ariane_admin.alerts.bounds import Turns, Watched
from ariane_admin.alerts.store import KEEP_ENDED_MS, AlertStore

LAG = Watched(1, "billing")


@pytest.fixture
def store(database):
    return AlertStore(database)


def raised(value):
    return Turns({LAG: value}, (), {})


def read(store, **wanted):
    return store.alerts(figure=0, before=None, limit=10, **{"include_ended": True, **wanted})


def test_from_raised_to_forgotten(store):
    store.take(raised(11.0), {1: 10.0}, 1000)
    store.take(Turns({}, (), {LAG: 12.0}), {1: 10.0}, 2000)
    [alert] = read(store)
    assert (alert.first_value, alert.last_value, alert.threshold) == (11.0, 12.0, 10.0)
    assert store.standing() == [LAG]
    store.take(Turns({}, {LAG}, {}), {1: 10.0}, 3000)
    assert store.standing() == []
    assert read(store, include_ended=False) == []
    [alert] = read(store)
    assert (alert.raised_ms, alert.ended_ms) == (1000, 3000)
    store.take(raised(20.0), {1: 10.0}, 4000)
    assert [each.first_value for each in read(store)] == [20.0, 11.0]
    store.take(Turns({}, (), {}), {1: 10.0}, 3001 + KEEP_ENDED_MS)
    assert [each.first_value for each in read(store)] == [20.0]


def test_of_two_admins_one_raises_and_one_tells(database):
    first, second = AlertStore(database), AlertStore(database)
    first.take(raised(11.0), {1: 10.0}, 1000)
    second.take(raised(11.5), {1: 10.0}, 1001)
    [alert] = read(first)
    assert alert.first_value == 11.0
    [unsent] = second.unsent(10)
    assert first.claim(unsent.alert_id, is_end=False)
    assert not second.claim(unsent.alert_id, is_end=False)
    assert first.claim(unsent.alert_id, is_end=False, sent=False)
    assert second.claim(unsent.alert_id, is_end=False)
    assert first.unsent(10) == []
    first.take(Turns({}, {LAG}, {}), {1: 10.0}, 2000)
    assert [each.alert_id for each in first.unsent(10)] == [alert.alert_id]
    assert first.claim(alert.alert_id, is_end=True)
    assert second.unsent(10) == []
