"""Ranges between two positions."""

from ariane_sdk import MessageQueue
from ariane_spark.positions.ranges import QueueRange, ranges_between

QUEUE_0 = MessageQueue("orders", "broker-a", 0)
QUEUE_1 = MessageQueue("orders", "broker-a", 1)


def test_ranges_are_half_open_and_never_empty():
    ranges = ranges_between({QUEUE_0: 3, QUEUE_1: 5}, {QUEUE_1: 5, QUEUE_0: 7}, {})

    assert ranges == [QueueRange(QUEUE_0, 3, 7)]
    assert ranges[0].count == 4


def test_a_queue_that_end_does_not_name_is_not_read():
    assert ranges_between({QUEUE_0: 1}, {}, {}) == []


def test_pieces_are_as_equal_as_can_be():
    whole = QueueRange(QUEUE_0, 10, 20)

    assert [(piece.begin, piece.end) for piece in whole.pieces(3)] == [(10, 13), (13, 16), (16, 20)]
    assert list(whole.pieces(1)) == [whole]
