"""Power lost at every step of a store's life, and of its recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_storage import FlushMode
from ariane_storage.testing import FaultyDisk, PowerLost, apply_retention, block_of, small_config

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]


def contents(store, read_all):
    return {queue: read_all(store, *queue) for queue in QUEUES}


def live(bench, acknowledged):
    """A store's life in which everything happens; notes up to where records are promised."""
    store = bench.open()
    for number in range(9):
        bodies = [f"{number}.{place};".encode() * 40 for place in range(3)]
        block = block_of("flights", bodies, keys=[[f"N{number}"]] * 3, tags=["t"] * 3)
        appended = store.append(block, number % 2)
        if number % 2:
            acknowledged.append(min(store.flush(), appended.next_commit_log_offset))
        if number == 4:
            store.flush_derived()
            store.keeping.prepare_next_segment()
        if number == 6:
            bench.disk.used_ratio = 0.86
            apply_retention(store)
            bench.disk.used_ratio = None
    store.close()


def written(bench):
    """What the same life leaves when nothing fails: body by commit-log offset."""
    live(bench, [])
    store = bench.open()
    found = {}
    for queue_id in (0, 1):
        low, high = store.queue_bounds("flights", queue_id)
        for queue_offset in range(low, high):
            read = store.read_queue("flights", queue_id, queue_offset, max_count=1, max_bytes=1)
            found[queue_id, queue_offset] = bytes(read.chunks[0])
    store.close()
    return found


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flush_mode", list(FlushMode))
def test_power_lost_at_every_step(bench, read_all, flush_mode, seed):
    bench.config = small_config(flush_mode=flush_mode)
    expected = written(replace(bench, disk=FaultyDisk()))
    total = step_count(bench)
    assert total > 60
    for step in range(1, total + 1):
        after_crash(bench, read_all, expected, step, seed)


def step_count(bench):
    probe = replace(bench, disk=FaultyDisk())
    live(probe, [])
    return probe.disk.steps


def after_crash(bench, read_all, expected, step, seed):
    crashing = replace(bench, disk=FaultyDisk(power_fails_at=step))
    acknowledged = [0]
    with pytest.raises(PowerLost):
        live(crashing, acknowledged)
    survivor = replace(bench, disk=crashing.disk.lose_power(seed * 1000 + step))
    store = survivor.open()
    where = (step, seed)
    assert store.max_offset >= acknowledged[-1], where
    assert store.damage == (), where
    before = {}
    for queue_id in (0, 1):
        messages = read_all(store, "flights", queue_id)
        low, high = store.queue_bounds("flights", queue_id)
        assert [m.queue_offset for m in messages] == list(range(low, high)), where
        for message in messages:
            record = expected.get((queue_id, message.queue_offset))
            # Retention removes what the undisturbed life had removed in the end.
            assert record is None or message.body in record, where
            assert message.body == message.body[: len(message.body) // 40] * 40, where
        before[queue_id] = messages
    # A second recovery, interrupted or not, changes nothing.
    twice = replace(bench, disk=survivor.disk.lose_power(step))
    again = twice.open()
    for queue_id in (0, 1):
        assert read_all(again, "flights", queue_id) == before[queue_id], where
    appended = again.append(block_of("flights", [b"on"]), 0)
    assert appended.first_queue_offset == again.queue_bounds("flights", 0)[1] - (
        0 if again.config.flush_mode is FlushMode.SYNC else 1
    )
    again.close()


def test_recovery_interrupted_at_every_step(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=10)
    store.flush_derived()
    fill(store, blocks=10)
    before = contents(store, read_all)
    disk = bench.disk.kill()
    disk.remove(bench.root / "checkpoint")
    total = None
    for step in range(1, 2000):
        image = disk.copy()
        image.power_fails_at = step
        try:
            replace(bench, disk=image).open()
            total = step
        except PowerLost:
            pass
        store = replace(bench, disk=image.kill()).open()
        assert contents(store, read_all) == before, step
        if total is not None:
            break
    assert total is not None
    assert total > 20
