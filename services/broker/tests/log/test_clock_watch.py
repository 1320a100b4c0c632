"""What is said of the machine's clock, and that nothing waits for one that jumped."""

from __future__ import annotations

import numpy as np
import pytest
from structlog.testing import capture_logs

from ariane_broker.delay.level_queues import LevelQueues, queue_of
from ariane_broker.log.clock_watch import ClockWatch
from ariane_broker.log.early_deletions import QUEUES_LOGGED_MAX, TOPICS_KEPT_MAX, EarlyDeletions
from ariane_record.names import DELAY_TOPIC
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import SystemClock
from ariane_storage import Store
from ariane_storage.keeping.retention import DeletedRange, RetentionReason, RetentionReport
from ariane_storage.log.believed_time import ClockDoubt
from ariane_storage.testing import FixedClock, small_config

DAY_MS = 86_400_000


class Stamped:
    stamp_ahead_ms = 0
    clock_doubt = None


@pytest.fixture
def store_state():
    return Stamped()


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def watch(store_state, clock):
    return ClockWatch(store_state, clock, SystemClock())


async def events(watch):
    with capture_logs() as logs:
        await watch.turn()
    return [each["event"] for each in logs]


async def test_a_clock_that_goes_well_is_worth_no_word(watch, clock):
    for passed in (0, 1000, 86_400_000, 999):
        clock.advance(passed)
        assert await events(watch) == []
    clock.jump(-900)
    assert await events(watch) == []
    assert (watch.jump_count, watch.last_jump_ms, watch.doubted_ms) == (0, 0, 0)


async def test_each_jump_is_told_and_counted_once(watch, clock):
    clock.advance(1000)
    clock.jump(15 * DAY_MS)
    assert await events(watch) == ["clock_jumped"]
    assert (watch.jump_count, watch.last_jump_ms) == (1, 15 * DAY_MS)
    assert watch.last_jump_at_ms == clock.time_ms
    clock.advance(1000)
    assert await events(watch) == []
    clock.jump(-2000)
    assert await events(watch) == ["clock_jumped"]
    assert (watch.jump_count, watch.last_jump_ms) == (2, -2000)


async def test_stamps_that_are_ahead_are_told_once_and_when_it_is_over(watch, store_state):
    for ahead_ms, told in ((0, []), (DAY_MS, ["store_times_ahead"]), (5000, [])):
        store_state.stamp_ahead_ms = ahead_ms
        assert await events(watch) == told
    assert watch.stamp_ahead_ms == 5000
    store_state.stamp_ahead_ms = 0
    assert await events(watch) == ["store_times_caught_up"]


async def test_a_doubt_is_told_once_and_when_it_is_over(watch, store_state):
    store_state.clock_doubt = ClockDoubt(DAY_MS, 7)
    assert await events(watch) == ["clock_doubted"]
    assert await events(watch) == []
    assert watch.doubted_ms == DAY_MS
    store_state.clock_doubt = None
    assert await events(watch) == ["clock_believed"]


def report(reason, *ranges):
    return RetentionReport((0, 8192), reason, 0.86, 16384, ranges, 100, 200)


def test_early_deletions_are_reported_and_counted():
    early = EarlyDeletions()
    ranges = DeletedRange("orders", 0, 5, 15), DeletedRange("bills", 2, 0, 30)
    with capture_logs() as logs:
        early.note(RetentionReport((), None, 0.8, 0), 1)
        early.note(report(RetentionReason.AGE, *ranges), 1)
        early.note(report(RetentionReason.DISK_FORCE, *ranges), 2)
        early.note(report(RetentionReason.DISK_FORCE, ranges[0]), 3)
    assert [each["event"] for each in logs] == [
        "old_messages_deleted",
        "messages_deleted_early",
        "messages_deleted_early",
    ]
    first = logs[1]
    assert first["log_level"] == "warning"
    assert first["queues"] == {"bills/2": "0 to 29", "orders/0": "5 to 14"}
    assert (first["message_count"], first["segments"]) == (40, [0, 8192])
    assert (first["stored_from_ms"], first["stored_until_ms"]) == (100, 200)
    assert (early.message_count, early.segment_count, early.last_at_ms) == (50, 4, 3)
    assert (early.last_topics, early.last_stored_until_ms) == (["orders"], 200)


def test_a_line_of_the_log_has_an_end():
    early = EarlyDeletions()
    ranges = (DeletedRange(f"t{number}", 0, 0, number + 1) for number in range(5000))
    with capture_logs() as logs:
        early.note(report(RetentionReason.DISK_FORCE, *ranges), 1)
    assert len(logs[0]["queues"]) == QUEUES_LOGGED_MAX
    assert (logs[0]["queue_count"], early.last_topics[0]) == (5000, "t4999")
    assert len(early.last_topics) == TOPICS_KEPT_MAX


# Delay levels.


@pytest.fixture
def store(tmp_path, clock):
    with Store.open(tmp_path / "store", small_config(), clock=clock) as store:
        yield store


@pytest.fixture
def levels(store, clock):
    return LevelQueues(store, levels_ms=(1000, 5000), now_ms=clock.now_ms)


def park(store, count=1, level=1):
    encoder = BlockEncoder(DELAY_TOPIC, size_bytes_max=1 << 12)
    for _ in range(count):
        encoder.add(b"x", properties={"DELAY": str(level)}, born_timestamp_ms=1)
    store.append(encoder.finish(), queue_of(level).queue_id)


def deliver(levels, level=1):
    rows = levels.due(level, 99)
    levels.mark(level, rows.queue_offsets)
    return rows.queue_offsets.tolist()


def test_what_was_parked_in_a_blip_waits_its_time_and_no_longer(store, levels, clock):
    clock.jump(15 * DAY_MS)
    park(store, 2)
    clock.jump(-15 * DAY_MS)
    assert deliver(levels) == []
    assert levels.next_due_ms() == clock.time_ms + 1000
    clock.advance(600)
    park(store)
    assert deliver(levels) == []
    clock.advance(400)
    assert deliver(levels) == [0, 1]
    assert levels.pending_of(1) == (1, clock.time_ms + 600)
    clock.advance(599)
    assert deliver(levels) == []
    clock.advance(1)
    assert deliver(levels) == [2]


def test_blips_without_end_hold_up_nothing_for_longer_than_its_time(store, levels, clock):
    for _ in range(10):
        clock.jump(DAY_MS)
        park(store, level=2)
        clock.jump(-DAY_MS)
        assert deliver(levels, 2) == []
        clock.advance(100)
    clock.advance(4000)
    for number in range(10):
        assert deliver(levels, 2) == [number]
        clock.advance(100)


def test_a_small_step_back_makes_nothing_early(store, levels, clock):
    park(store)
    clock.jump(-1)
    assert deliver(levels) == []
    clock.advance(999)
    assert deliver(levels) == []
    clock.advance(1)
    assert deliver(levels) == [0]


def test_a_level_that_the_table_has_no_more_is_bounded_too(store, clock):
    clock.jump(15 * DAY_MS)
    park(store, level=2)
    clock.jump(-15 * DAY_MS)
    levels = LevelQueues(store, levels_ms=(1000,), now_ms=clock.now_ms)
    levels.keep_topics(lambda topic: True)
    assert levels.due(2, 99).queue_offsets.tolist() == []
    clock.advance(2 * 3_600_000)
    assert levels.due(2, 99).queue_offsets.tolist() == [0]
    assert np.all(levels.due(2, 99).due_ms <= clock.time_ms)
