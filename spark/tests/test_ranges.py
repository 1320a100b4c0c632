"""Ranges between two positions."""

import pytest

from ariane_record import QueueOffset
from ariane_spark.offsets import Bounds, QueueName
from ariane_spark.ranges import QueueRange, ranges_between

QUEUE_0 = QueueName("orders", "broker-a", 0)
QUEUE_1 = QueueName("orders", "broker-a", 1)


def no_bounds(queue):
    pytest.fail(f"asked for the bounds of {queue}, although the positions say everything")


def bounds_from(earliest):
    return lambda _: Bounds(QueueOffset(earliest), QueueOffset(1000))


def test_ranges_are_half_open_and_never_empty():
    ranges = ranges_between({QUEUE_0: 3, QUEUE_1: 5}, {QUEUE_0: 7, QUEUE_1: 5}, no_bounds)

    assert ranges == [QueueRange(QUEUE_0, 3, 7)]
    assert ranges[0].count == 4


def test_a_queue_that_start_does_not_know_begins_at_its_earliest():
    assert ranges_between({}, {QUEUE_0: 7}, bounds_from(2)) == [QueueRange(QUEUE_0, 2, 7)]


def test_a_queue_that_appeared_at_its_earliest_is_empty_even_after_retention():
    assert ranges_between({}, {QUEUE_0: 7}, bounds_from(9)) == []


def test_a_queue_that_was_made_anew_begins_at_its_earliest():
    assert ranges_between({QUEUE_0: 90}, {QUEUE_0: 7}, bounds_from(0)) == [
        QueueRange(QUEUE_0, 0, 7)
    ]


def test_a_queue_that_end_does_not_name_is_not_read():
    assert ranges_between({QUEUE_0: 1}, {}, no_bounds) == []
