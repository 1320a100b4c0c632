"""Retention in three steps: choosing and deleting beside the loop, letting go on it."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from functools import partial
from queue import SimpleQueue

import pytest

from ariane_storage import QueueOffsetOutOfRange, RetentionReason, Store, StorePoisoned
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.testing import FaultyDisk, apply_retention, block_of, small_config


@pytest.fixture
def old(bench):
    """A store over several segments, and a disk that is too full."""
    bench.config = replace(bench.config, disk_refuse_ratio=1.0)
    store = bench.open()
    store.append(block_of("quiet", [b"q"] * 4, keys=[["k"]] * 4), 0)
    while store.max_offset <= 3 * store.config.segment_bytes:
        store.append(block_of("loud", [b"x" * 900] * 2), 0)
    bench.disk.used_ratio = 0.9
    return store


def bodies(store, topic, queue_offset, count=1):
    read = store.read_queue(topic, 0, queue_offset, max_count=count, max_bytes=1 << 20)
    return b"".join(bytes(chunk) for chunk in read.chunks)


def test_a_copy_deletes_what_its_primary_has_deleted_however_full_the_disk_is(bench, old):
    bench.disk.used_ratio = 0.99
    assert old.keeping.plan_retention(delete_to=8191).segments == ()
    plan = old.keeping.plan_retention(delete_to=16384)
    assert [segment.start for segment in plan.segments] == [0, 8192]
    assert (plan.min_offset, plan.reason) == (16384, RetentionReason.COPIED)
    assert old.keeping.plan_retention(delete_to=16384, keep_from=8192).min_offset == 8192
    old.keeping.let_go(plan)
    assert old.keeping.finish_retention(plan).deleted == (0, 8192)
    assert old.keeping.plan_retention(delete_to=1 << 40).min_offset == 24576


def test_a_segment_that_is_deleted_while_its_bytes_are_fetched_is_gone_for_the_reader(bench, old):
    def read():
        with IN_MEMORY:
            return bodies(old, "quiet", 0)

    plan = old.keeping.plan_retention()
    bench.disk.cool(bench.root / "commitlog" / f"{0:020d}")

    def delete():
        old.keeping.let_go(plan)
        old.keeping.finish_retention(plan)

    with pytest.raises(BytesCold) as raised:
        read()
    bench.disk.await_medium = delete
    raised.value.fetch()
    assert old.min_offset == 24576
    with pytest.raises(QueueOffsetOutOfRange):
        read()


def test_segments_can_be_deleted_one_by_one(bench, old):
    plan = old.keeping.plan_retention()
    old.keeping.delete_segment(plan.segments[0])
    names = bench.disk.names(bench.root / "commitlog")
    assert names[0] == f"{0:020d}"
    old.keeping.let_go(plan)
    for place, segment in enumerate(plan.segments):
        old.keeping.delete_segment(segment)
        assert bench.disk.names(bench.root / "commitlog") == names[place + 1 :]
    report = old.keeping.finish_retention(plan)
    assert report.deleted == tuple(segment.start for segment in plan.segments)
    assert (report.reason, report.min_offset) == (RetentionReason.DISK_FORCE, 24576)


def test_a_store_that_closes_between_two_deletions_deletes_the_rest_later(bench, old):
    plan = old.keeping.plan_retention()
    old.keeping.let_go(plan)
    old.keeping.delete_segment(plan.segments[0])
    old.close()
    store = bench.open()
    assert store.min_offset == 8192
    assert store.queue_bounds("quiet", 0) == (4, 4)
    assert apply_retention(store).min_offset == 24576
    low, high = store.queue_bounds("loud", 0)
    assert bodies(store, "loud", low, high - low).count(b"x" * 900) == 2 * (high - low) // 2
    store.close()


def test_every_step_does_its_part_and_no_other(bench, old):
    log_files = bench.disk.names(bench.root / "commitlog")
    plan = old.keeping.plan_retention()
    assert plan.reason is RetentionReason.DISK_FORCE
    assert [segment.start for segment in plan.segments] == [0, 8192, 16384]
    assert plan.min_offset == 24576
    assert old.min_offset == 0
    assert b"q" in bodies(old, "quiet", 0)
    first = old.append(block_of("quiet", [b"new"]), 0)
    assert first.first_queue_offset == 4

    read = old.read_queue("quiet", 0, 0, max_count=4, max_bytes=1 << 20)
    before = b"".join(read.chunks)
    old.keeping.let_go(plan)
    assert old.min_offset == 24576
    assert bench.disk.names(bench.root / "commitlog") == log_files
    with pytest.raises(QueueOffsetOutOfRange, match=r"outside \[4, "):
        bodies(old, "quiet", 3)
    assert b"new" in bodies(old, "quiet", 4)
    assert old.query_by_key("quiet", "k") == []
    assert b"".join(read.chunks) == before

    report = old.keeping.finish_retention(plan)
    assert report.deleted == (0, 8192, 16384)
    assert report.min_offset == 24576
    assert bench.disk.names(bench.root / "commitlog") == log_files[3:]
    assert b"".join(read.chunks) == before
    assert old.damage == ()
    old.close()


def test_what_nobody_let_go_of_is_not_deleted(bench, old):
    plan = old.keeping.plan_retention()
    assert old.keeping.finish_retention(plan).deleted == ()
    assert b"q" in bodies(old, "quiet", 0)
    old.keeping.let_go(plan)
    old.keeping.let_go(plan)
    assert old.keeping.finish_retention(plan).deleted == (0, 8192, 16384)
    assert old.keeping.finish_retention(old.keeping.plan_retention()).deleted == ()
    old.close()


def test_what_was_let_go_of_and_not_deleted_is_there_again(bench, old, read_all):
    old.keeping.let_go(old.keeping.plan_retention())
    old.append(block_of("quiet", [b"new"]), 0)
    old.close()
    bench.disk.used_ratio = 0.1
    store = bench.open()
    assert store.recovery.rebuilt == ()
    assert [m.body for m in read_all(store, "quiet", 0)] == [b"q"] * 4 + [b"new"]
    assert len(store.query_by_key("quiet", "k")) == 4
    store.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [1, 2])
def test_a_crash_between_steps_takes_nothing_back(bench, old, steps, seed, read_all):
    old.flush_derived()
    plan = old.keeping.plan_retention()
    if steps == 2:
        old.keeping.let_go(plan)
    old.append(block_of("quiet", [b"new"]), 0)
    old.flush()
    bench.disk = bench.disk.lose_power(seed)
    bench.disk.used_ratio = 0.1
    store = bench.open()
    assert store.min_offset == 0
    assert [m.body for m in read_all(store, "quiet", 0)] == [b"q"] * 4 + [b"new"]
    assert len(store.query_by_key("quiet", "k")) == 4
    assert store.damage == ()
    store.close()


def test_a_topic_that_is_made_again_meanwhile_keeps_all_it_has(bench, old):
    plan = old.keeping.plan_retention()
    old.keeping.delete_queues("quiet")
    old.append(block_of("quiet", [b"anew"] * 2), 0)
    old.flush_derived()
    old.keeping.let_go(plan)
    assert old.queue_bounds("quiet", 0) == (0, 2)
    old.keeping.finish_retention(plan)
    assert old.queue_bounds("quiet", 0) == (0, 2)
    assert b"anew" in bodies(old, "quiet", 0)
    old.close()
    store = bench.open()
    assert store.queue_bounds("quiet", 0) == (0, 2)
    store.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("queues", ["lost", "there"])
def test_an_end_is_known_although_a_message_came_that_power_loss_took(bench, old, queues, seed):
    """Beside the loop, the last record of a queue may be none of those that were flushed."""
    old.flush_derived()
    flush = old._parts.log.flush

    def flush_then_append():
        flushed = flush()
        old._parts.log.flush = flush
        old.append(block_of("quiet", [b"taken"]), 0)
        return flushed

    old._parts.log.flush = flush_then_append
    plan = old.keeping.plan_retention()
    old.keeping.let_go(plan)
    old.keeping._delete(list(plan.segments), plan)
    bench.disk = bench.disk.lose_power(seed)
    bench.disk.used_ratio = 0.1
    if queues == "lost":
        bench.disk.remove_folder(bench.root / "consumequeue")
    store = bench.open()
    assert store.min_offset == 24576
    appended = store.append(block_of("quiet", [b"next"]), 0)
    assert appended.first_queue_offset in {4, 5}
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_is_on_the_disk_before_its_messages_are_not(bench, old, seed):
    plan = old.keeping.plan_retention()
    old.keeping.let_go(plan)
    old.keeping._delete(list(plan.segments), plan)
    bench.disk = bench.disk.lose_power(seed)
    bench.disk.used_ratio = 0.1
    store = bench.open()
    assert store.recovery.rebuilt == ()
    assert store.append(block_of("quiet", [b"next"]), 0).first_queue_offset == 4
    store.close()


def test_without_space_for_queues_only_what_is_in_them_already_goes(bench, old):
    old.flush_derived()
    written = old.max_offset
    while old.max_offset <= 6 * old.config.segment_bytes:
        old.append(block_of("loud", [b"x" * 900] * 2), 0)
    write_out = old._parts.queues.write_out

    def no_space(commit_log_end):
        raise OSError(28, "No space left on device")

    old._parts.queues.write_out = no_space
    assert old.keeping.plan_retention().min_offset == written - written % 8192
    assert not old.is_poisoned
    old._parts.queues.write_out = write_out
    assert old.keeping.plan_retention().min_offset == 6 * 8192
    old.close()


def test_no_more_goes_than_makes_room(bench):
    bench.disk = FaultyDisk(space_bytes=200_000)
    bench.config = replace(
        small_config(segment_bytes=8192),
        disk_clean_ratio=0.3,
        disk_force_ratio=0.5,
        disk_refuse_ratio=1.0,
    )
    store = bench.open()
    while store.max_offset <= 17 * store.config.segment_bytes:
        store.append(block_of("loud", [b"x" * 900] * 2), 0)
    assert bench.disk.usage(bench.root).ratio > 0.5
    ratio = 1.0
    while ratio >= 0.5:
        before = bench.disk.usage(bench.root).used_bytes
        report = apply_retention(store)
        assert report.reason is RetentionReason.DISK_FORCE
        ratio = report.disk_ratio
        assert before - 8192 * (len(report.deleted) - 1) >= 0.5 * 200_000
    assert apply_retention(store).deleted == ()
    store.close()


@pytest.mark.parametrize("fails", ["plan", "finish"])
def test_a_disk_that_fails_poisons(bench, old, fails):
    step = old.keeping.plan_retention
    if fails == "finish":
        plan = old.keeping.plan_retention()
        old.keeping.let_go(plan)
        step = partial(old.keeping.finish_retention, plan)

    def broken(*_args, **_kwargs):
        raise OSError(5, "Input/output error")

    bench.disk.remove = bench.disk.rename = bench.disk.link = broken
    with pytest.raises(StorePoisoned):
        step()
    assert old.is_poisoned
    old.close()


def test_reads_and_appends_beside_retention_on_the_disk_of_the_machine(tmp_path):
    """Choosing and deleting in a thread, all else here: what is read is right or out of range."""
    config = replace(
        small_config(segment_bytes=4096),
        disk_clean_ratio=1e-9,
        disk_force_ratio=1e-9,
        disk_refuse_ratio=1.0,
    )
    dice = random.Random(5)
    with Store.open(tmp_path / "s", config) as store:
        chosen, let_go, failures = SimpleQueue(), SimpleQueue(), []

        def keep():
            try:
                while True:
                    plan = store.keeping.plan_retention()
                    chosen.put(plan)
                    if let_go.get() is None:
                        return
                    store.keeping.finish_retention(plan)
                    store.flush_derived()
            except BaseException as error:
                failures.append(error)
                raise

        keeper = threading.Thread(target=keep)
        keeper.start()
        passes, number = 0, 0
        try:
            while passes < 40 and not failures:
                queue_id = dice.randrange(12)
                body = f"{queue_id}:{number};".encode() * 60
                store.append(block_of("t", [body] * 2), queue_id)
                number += 1
                queue_id = dice.randrange(12)
                low, high = store.queue_bounds("t", queue_id)
                if low < high:
                    queue_offset = dice.randrange(low, high)
                    read = store.read_queue(
                        "t", queue_id, queue_offset, max_count=5, max_bytes=1 << 20
                    )
                    assert read.count == min(5, high - queue_offset)
                    assert f"{queue_id}:".encode() in b"".join(read.chunks)
                if not chosen.empty():
                    store.keeping.let_go(chosen.get())
                    let_go.put(passes)
                    passes += 1
        finally:
            let_go.put(None)
            keeper.join()
        assert failures == []
        assert store.damage == ()
        assert store.min_offset > 0
