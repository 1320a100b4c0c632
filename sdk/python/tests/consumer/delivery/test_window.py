from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk.consumer.delivery.window import QueueWindow


class Stub:
    """A message with nothing but place and size."""

    def __init__(self, queue_offset, size_bytes=10):
        self.queue_offset = queue_offset
        self.size_bytes = size_bytes


def stubs(*queue_offsets):
    return [Stub(queue_offset) for queue_offset in queue_offsets]


def offsets_of(delivery):
    return [message.queue_offset for message in delivery.messages]


def test_an_empty_window_stands_where_it_began():
    window = QueueWindow(40)

    assert (window.consumer_offset, window.next_pull_offset) == (40, 40)
    assert window.take(10) is None


def test_the_smallest_unfinished_offset_is_what_is_stored():
    window = QueueWindow(0)
    window.put(stubs(*range(9)), 9)
    first, second, third = (window.take(3) for _ in range(3))

    window.finish(second)
    assert window.consumer_offset == 0
    window.finish(first)
    assert window.consumer_offset == 6
    window.finish(third)
    assert window.consumer_offset == 9


def test_a_delivery_goes_over_the_ends_of_pulls():
    window = QueueWindow(0)
    window.put(stubs(0, 1), 2)
    window.put(stubs(2, 3, 4), 5)

    assert offsets_of(window.take(4)) == [0, 1, 2, 3]
    assert offsets_of(window.take(4)) == [4]
    assert window.take(4) is None


def test_filtered_messages_are_passed_over():
    window = QueueWindow(0)
    window.put(stubs(3, 7), 10)
    window.put((), 30)
    assert window.consumer_offset == 3

    delivery = window.take(1)
    window.finish(delivery)
    assert window.consumer_offset == 7
    window.finish(window.take(1))
    assert window.consumer_offset == 30
    window.put((), 50)
    assert window.consumer_offset == 50


def test_dropping_what_waits_keeps_what_is_in_work():
    window = QueueWindow(0)
    window.put(stubs(*range(10)), 10)
    delivery = window.take(4)

    window.drop_waiting()

    assert (window.next_pull_offset, window.message_count, window.size_bytes) == (4, 4, 40)
    assert window.take(1) is None
    window.finish(delivery)
    assert (window.consumer_offset, window.message_count, window.size_bytes) == (4, 0, 0)


@pytest.mark.parametrize(
    ("count", "size", "gap", "room"),
    [(0, 10, 1, True), (5, 10, 1, True), (6, 10, 1, False), (3, 40, 1, False), (2, 10, 30, False)],
)
def test_room_is_half_of_count_and_bytes_and_the_span(count, size, gap, room):
    window = QueueWindow(0)
    window.put([Stub(number * gap, size) for number in range(count)], count * gap)

    assert window.has_room(count_max=10, bytes_max=200, span_max=20) is room


@st.composite
def histories(draw):
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("put"), st.lists(st.integers(1, 5), max_size=6)),
                st.tuples(st.just("take"), st.integers(1, 4)),
                st.tuples(st.just("finish"), st.integers(0, 9)),
                st.tuples(st.just("drop"), st.none()),
            ),
            max_size=40,
        )
    )


@given(histories())
def test_no_message_is_skipped_or_counted_twice(history):
    window = QueueWindow(100)
    unfinished, in_work, delivered = deque(), [], []
    next_offset = 100
    for action, argument in history:
        if action == "put":
            next_offset = window.next_pull_offset
            offsets = []
            for gap in argument:
                next_offset += gap
                offsets.append(next_offset)
            next_offset += 1
            window.put(stubs(*offsets), next_offset)
            unfinished.extend(offsets)
        elif action == "take":
            delivery = window.take(argument)
            if delivery is not None:
                in_work.append(delivery)
                delivered += offsets_of(delivery)
        elif action == "finish" and in_work:
            delivery = in_work.pop(argument % len(in_work))
            window.finish(delivery)
            for offset in offsets_of(delivery):
                unfinished.remove(offset)
        elif action == "drop":
            window.drop_waiting()
            waiting = [o for o in unfinished if not any(o in offsets_of(d) for d in in_work)]
            for offset in waiting:
                unfinished.remove(offset)

        expected = min(unfinished) if unfinished else window.next_pull_offset
        assert window.consumer_offset == expected
        assert window.message_count == len(unfinished)
        assert window.size_bytes == 10 * len(unfinished)
        assert all(before < after for before, after in pairwise(delivered))
