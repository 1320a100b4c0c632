"""When copies of failed messages are due, on a real store with a clock that jumps."""

from __future__ import annotations

import numpy as np
import pytest

from ariane_broker.delay.level_queues import LevelQueues
from ariane_broker.delay.parking import Parking
from ariane_broker.groups.consumer_groups import GroupConfig, TableRetry
from ariane_broker.queue_key import QueueKey
from ariane_broker.retry.copy_append import AppendTerms, CopyAppend
from ariane_broker.retry.failed_columns import FailedColumns
from ariane_broker.retry.failures import Failure, ReturnLimits
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import TIMER_TOPIC, retry_topic
from ariane_storage import Store
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.testing import FixedClock, block_of, small_config
from services.broker.tests.log_side import broker_log

DAY_MS = 86_400_000
GROUP = "billing"


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def store(tmp_path, clock):
    with Store.open(tmp_path / "store", small_config(), clock=clock) as store:
        yield store


@pytest.fixture
def levels(store, clock):
    return LevelQueues(store, levels_ms=DELAY_LEVELS_MS, now_ms=clock.now_ms)


@pytest.fixture
def fail(store, clock):
    """Have the group fail on a message, after which it waits so long."""
    parking = Parking(
        levels_ms=DELAY_LEVELS_MS,
        delay_ms_max=40 * DAY_MS,
        now_ms=clock.now_ms,
        check_table=lambda block: None,
    )
    limits = ReturnLimits(delay_ms_max=40 * DAY_MS)
    copies = CopyAppend(broker_log(store), parking, limits=limits, now_ms=clock.now_ms)
    store.append(block_of("orders", [b"bad"]), 0)
    read = store.read_queue("orders", 0, 0, max_count=1, max_bytes=1 << 12)
    columns = decode_columns(b"".join(read.chunks), read.sizes.astype(np.int32))
    failed = FailedColumns(columns, "orders", GROUP)

    def fail(wait_ms):
        (returned,) = copies.append(
            Failure(consumer_group=GROUP, topic="orders", queue_id=0),
            GroupConfig(consumer_group=GROUP, retry_policy=TableRetry((wait_ms,))),
            failed,
            np.array([0]),
            terms=AppendTerms(0, "", failed.born_keys[0]),
            queue=QueueKey(retry_topic(GROUP), 0),
        )
        return returned

    return fail


def times_of(store):
    return store.queue_entries(TIMER_TOPIC, 0, 0, max_count=9)["tags_code"].tolist()


@pytest.mark.parametrize(
    ("wait_ms", "level_ms"), [(1, 1000), (12_000, 30_000), (7_200_000, 7_200_000)]
)
def test_a_wait_of_its_own_is_not_counted_from_a_clock_that_is_ahead(
    store, levels, clock, fail, wait_ms, level_ms
):
    clock.jump(15 * DAY_MS)
    returned = fail(wait_ms)
    assert times_of(store) == []
    assert levels.next_due_ms() == clock.now_ms() + level_ms
    clock.jump(-15 * DAY_MS)
    assert levels.next_due_ms() == returned.due_ms == clock.now_ms() + level_ms


def test_by_a_sound_clock_it_is_exact(store, clock, fail):
    returned = fail(12_000)
    assert times_of(store) == [returned.due_ms] == [clock.now_ms() + 12_000]


def test_a_wait_that_is_longer_than_all_levels_stays_as_long(store, clock, fail):
    clock.jump(15 * DAY_MS)
    fail(3 * DAY_MS)
    assert times_of(store) == [clock.now_ms() + 3 * DAY_MS]
