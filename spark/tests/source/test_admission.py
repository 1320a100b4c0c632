"""How far one micro-batch goes."""

from hypothesis import given
from hypothesis import strategies as st

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.options.options import TriggerLimits
from ariane_spark.positions.offsets import Bounds
from ariane_spark.source.admission import Patience, backlog_of, limit_by_bytes, limit_by_count

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


@given(
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 22)), max_size=12),
    st.integers(1, 1 << 50),
)
def test_bytes_are_limited_but_for_one_message_each(queues, bytes_max):
    start = positions_of(*[0] * len(queues))
    end = positions_of(*[backlog for backlog, _ in queues])
    sizes = {queue: size for queue, (_, size) in zip(end, queues, strict=True)}

    limited = limit_by_bytes(start, end, sizes, bytes_max)

    total = sum(limited[queue] * sizes[queue] for queue in end)
    assert total <= bytes_max * (1 + 1e-9) + sum(sizes.values())
    for queue in end:
        assert min(1, end[queue]) <= limited[queue] <= end[queue]
    if sum(end[queue] * sizes[queue] for queue in end) <= bytes_max:
        assert limited == end


def test_bytes_are_shared_in_proportion():
    end = positions_of(900, 100, 50)
    sizes = dict(zip(end, (1000, 1000, 0), strict=True))

    limited = limit_by_bytes(positions_of(0, 0, 0), end, sizes, 100_000)

    assert limited == positions_of(90, 10, 5)


def test_patience_ends_with_enough_or_with_time():
    now = [100.0]
    patience = Patience(TriggerLimits(records_min=5, delay_ms_max=2000), lambda: now[0])

    assert not patience.is_over(4)
    assert patience.is_over(5)
    now[0] = 102.0
    assert patience.is_over(1)
    patience.begin_anew()
    assert not patience.is_over(4)


def test_the_backlog_counts_a_queue_that_appeared():
    start = positions_of(3, 9)
    bounds = {queue: Bounds(QueueOffset(1), QueueOffset(7), 0) for queue in positions_of(0, 0, 0)}

    assert backlog_of(start, bounds) == 4 + 0 + 6
