"""How far one micro-batch goes."""

from hypothesis import given
from hypothesis import strategies as st

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.admission import limit_by_count

backlogs_of_queues = st.lists(st.integers(0, 1 << 40), max_size=12)


def positions_of(*queue_offsets):
    return {MessageQueue("t", "b", at): QueueOffset(q) for at, q in enumerate(queue_offsets)}


def shares_of(backlogs, count_max):
    start = positions_of(*[7] * len(backlogs))
    end = positions_of(*[7 + backlog for backlog in backlogs])
    limited = limit_by_count(start, end, count_max)
    assert list(limited) == list(end)
    return [limited[queue] - start[queue] for queue in end]


@given(backlogs_of_queues, st.integers(1, 1 << 41))
def test_limit_is_used_up_and_nobody_starves(backlogs, count_max):
    shares = shares_of(backlogs, count_max)

    waiting = sum(1 for backlog in backlogs if backlog)
    assert sum(shares) == min(sum(backlogs), max(count_max, waiting))
    for share, backlog in zip(shares, backlogs, strict=True):
        assert min(backlog, 1) <= share <= backlog


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=12), st.integers(1, 1 << 41))
def test_shares_are_proportional_but_for_rounding(backlogs, count_max):
    total = sum(backlogs)
    raised = sum(1 for backlog in backlogs if backlog * count_max < total)
    for share, backlog in zip(shares_of(backlogs, count_max), backlogs, strict=True):
        exact = min(1, count_max / total) * backlog
        assert exact - 1 - raised <= share <= exact + 1 + 1e-3 * exact


@given(st.lists(st.integers(0, 500), max_size=8), st.integers(1, 100))
def test_limited_batches_reach_the_end(backlogs, count_max):
    start = positions_of(*[0] * len(backlogs))
    end = positions_of(*backlogs)
    for _ in range(sum(backlogs)):
        if start == end:
            break
        start = limit_by_count(start, end, count_max)

    assert start == end


def test_shares_of_a_skewed_topic():
    assert shares_of([900, 90, 10, 0], 100) == [90, 9, 1, 0]
    assert shares_of([10_000, 1, 1], 10) == [8, 1, 1]
    assert shares_of([5, 5, 5], 2) == [1, 1, 1]


def test_a_queue_behind_its_start_keeps_its_end():
    # It was made anew; whoever plans the ranges sees that and begins at its earliest.
    start, end = positions_of(50, 0), positions_of(3, 10)

    assert limit_by_count(start, end, 4) == positions_of(3, 4)
