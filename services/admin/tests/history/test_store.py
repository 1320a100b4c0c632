"""Samples on SQLite and on a real PostgreSQL."""

import pytest

from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane_admin.history.store import FINE_MS, Sample, SampleStore

STORED = history_pb.SERIES_KIND_STORED_RATE
DISK = history_pb.SERIES_KIND_DISK_RATIO
NOW_MS = 1_700_000_100_000


@pytest.fixture
def store(database):
    return SampleStore(database)


def test_steps_are_averages_of_sums(store):
    for number, value in enumerate((10, 20, 30, 40)):
        samples = [Sample(STORED, "broker-a", value), Sample(STORED, "broker-b", 1)]
        store.add(NOW_MS + number * 15_000, samples)
    points = store.points(STORED, "", NOW_MS, NOW_MS + 60_000, step_ms=30_000)
    assert [(each.time_ms - NOW_MS, each.value) for each in points] == [(0, 16), (30_000, 36)]
    [alone] = store.points(STORED, "broker-a", NOW_MS, NOW_MS + 15_000, step_ms=30_000)
    assert alone.value == 10


def test_of_ratios_the_greatest_counts(store):
    store.add(NOW_MS, [Sample(DISK, "broker-a", 0.5), Sample(DISK, "broker-b", 0.7)])
    [point] = store.points(DISK, "", NOW_MS, NOW_MS + 1, step_ms=1000)
    assert point.value == pytest.approx(0.7)


def test_the_same_instant_sampled_twice_stays_as_it_was(store):
    store.add(NOW_MS, [Sample(STORED, "broker-a", 1)])
    store.add(NOW_MS, [Sample(STORED, "broker-a", 2), Sample(STORED, "broker-b", 4)])
    [point] = store.points(STORED, "", NOW_MS, NOW_MS + 1, step_ms=1000)
    assert point.value == 5


def test_old_samples_grow_thin_and_go(store):
    begin_ms = 1_700_000_100_000  # A whole multiple of five minutes.
    for number in range(40):
        store.add(begin_ms + number * 15_000, [Sample(STORED, "broker-a", number)])
    later_ms = begin_ms + FINE_MS + 600_000
    store.thin_out(later_ms, keep_ms=FINE_MS * 2)
    points = store.points(STORED, "broker-a", begin_ms, later_ms, step_ms=15_000)
    assert [each.value for each in points] == [0, 20]
    store.thin_out(begin_ms + FINE_MS * 2 + 300_000, keep_ms=FINE_MS * 2)
    points = store.points(STORED, "broker-a", begin_ms, later_ms, step_ms=15_000)
    assert [each.value for each in points] == [20]


def test_series_come_page_by_page(store):
    store.add(NOW_MS, [Sample(STORED, name, 1) for name in "abc"] + [Sample(DISK, "a", 1)])
    first = store.series(0, after=None, limit=2)
    assert first == [(STORED, "a"), (STORED, "b")]
    assert store.series(0, after=first[-1], limit=9) == [(STORED, "c"), (DISK, "a")]
    assert store.series(DISK, after=None, limit=9) == [(DISK, "a")]
