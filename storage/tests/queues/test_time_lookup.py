"""Queue offsets by time, against looking at every message."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ariane_storage.queues.time_lookup import TimeBoundary, find_by_time

TIMES = st.lists(st.none() | st.integers(0, 30), max_size=30)


def ascending(times):
    """The same holes, with times that never run backwards."""
    known = iter(sorted(time for time in times if time is not None))
    return [None if time is None else next(known) for time in times]


@given(times=TIMES, begin=st.integers(0, 100), wanted=st.integers(-1, 31))
@example(times=[None, None], begin=3, wanted=5)
@example(times=[1, None, None, 1, 7], begin=0, wanted=1)
def test_both_boundaries_are_exact(times, begin, wanted):
    times = ascending(times)
    end = begin + len(times)

    def stored_at(queue_offset):
        assert begin <= queue_offset < end
        return times[queue_offset - begin]

    def messages(first, behind):
        return [place for place in range(first, behind) if times[place - begin] is not None]

    def next_message(first, behind):
        return next(iter(messages(first, behind)), max(first, behind))

    def last_message(first, behind):
        return next(reversed(messages(first, behind)), first - 1)

    steps = {
        "stored_at": stored_at,
        "next_message": next_message,
        "last_message": last_message,
    }
    known = [(begin + n, time) for n, time in enumerate(times) if time is not None]
    later = [offset for offset, time in known if time >= wanted]
    earlier = [offset for offset, time in known if time <= wanted]
    found = find_by_time(begin, end, wanted, TimeBoundary.LOWER, **steps)
    assert found == (later[0] if later else end)
    found = find_by_time(begin, end, wanted, TimeBoundary.UPPER, **steps)
    assert found == (earlier[-1] if earlier else begin)


def test_a_long_queue_takes_few_looks():
    looks = []

    def stored_at(queue_offset):
        looks.append(queue_offset)
        return queue_offset // 3

    def no_hole(*_):
        raise AssertionError("there are none")

    steps = {"stored_at": stored_at, "next_message": no_hole, "last_message": no_hole}
    assert find_by_time(0, 10_000_000, 999_999, TimeBoundary.LOWER, **steps) == 2_999_997
    assert len(looks) < 60
