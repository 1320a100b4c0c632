"""Waits between tries, and the memory of returns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.delay.delay import Delay
from ariane_broker.groups.consumer_groups import (
    ConsumerGroups,
    ExponentialRetry,
    GroupConfig,
    TableRetry,
)
from ariane_broker.retry.return_table import Returned, ReturnTable
from ariane_broker.retry.waits import delay_of_try, wait_ms
from ariane_storage.config import DELAY_LEVELS_MS


@pytest.mark.parametrize("is_clock_doubted", [False, True])
def test_the_default_ladder_is_that_of_the_levels(is_clock_doubted):
    levels = [
        delay_of_try(
            wait_ms(TableRetry(), attempts),
            attempts,
            now_ms=0,
            delay_ms_max=1,
            levels_ms=DELAY_LEVELS_MS,
            is_clock_doubted=is_clock_doubted,
        )
        for attempts in range(17)
    ]
    assert levels == [Delay(min(3 + attempts, 18)) for attempts in range(17)]


@given(
    st.integers(1, 10_000),
    st.integers(0, 10_000_000),
    st.floats(1, 1000),
    st.integers(0, 5000),
)
def test_growing_waits_never_shrink_and_stay_in_bounds(initial_ms, more_ms, multiplier, attempts):
    policy = ExponentialRetry(initial_ms, initial_ms + more_ms, multiplier)
    wait, longer = wait_ms(policy, attempts), wait_ms(policy, attempts + 1)
    assert policy.initial_ms <= wait <= longer <= policy.max_ms


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=100).map(tuple), st.integers(0, 300))
def test_the_last_wait_of_a_table_repeats(delays_ms, attempts):
    expected = delays_ms[attempts] if attempts < len(delays_ms) else delays_ms[-1]
    assert wait_ms(TableRetry(delays_ms), attempts) == expected


@given(st.lists(st.integers(0, 1000), max_size=100).map(tuple))
def test_a_table_is_written_as_rocketmq_reads_it(delays_ms):
    groups = ConsumerGroups(now_ms=lambda: 1)
    config = GroupConfig(consumer_group="g", retry_policy=TableRetry(delays_ms))
    document = groups.document_with(groups.created(config))
    policy = document["subscriptionGroupTable"]["g"]["groupRetryPolicy"]
    if delays_ms:
        table = policy["customizedRetryPolicy"]["next"]
        assert [table[min(tried + 2, len(table) - 1)] for tried in range(3)] == [
            wait_ms(TableRetry(delays_ms), tried) for tried in range(3)
        ]
    loaded = ConsumerGroups(now_ms=lambda: 1)
    loaded.load(document)
    assert loaded.get("g").retry_policy == TableRetry(delays_ms)


@pytest.fixture
def table():
    return ReturnTable(now_ms=lambda: 1000, return_count_max=3)


def test_a_copy_that_waits_is_enough_and_one_that_came_is_not(table):
    table.remember("g", 7, Returned("r", 1, dead_letter=False, due_ms=1001, commit_log_offset=9))
    table.remember("g", 8, Returned("r", 1, dead_letter=False, due_ms=1000, commit_log_offset=9))
    assert table.duplicate_of("g", 7, "")
    assert table.duplicate_of("g", 8, "r")
    assert not table.duplicate_of("g", 8, "")
    assert not table.duplicate_of("g", 8, "other")
    assert not table.duplicate_of("h", 7, "r")


def test_memory_is_bounded_and_kept(table):
    for offset in range(5):
        returned = Returned("r", 1, dead_letter=True, due_ms=0, commit_log_offset=offset)
        table.remember("g", offset, returned)
    loaded = ReturnTable(now_ms=lambda: 1000)
    assert loaded.load(table.snapshot(77)()) == 77
    found = [bool(loaded.duplicate_of("g", offset, "")) for offset in range(5)]
    assert found == [False, False, True, True, True]
