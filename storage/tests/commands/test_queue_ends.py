"""Where queues go on when they are built again and their last records are not in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from ariane_storage import StateFileDamaged, Store
from ariane_storage.commands import store as store_group
from ariane_storage.testing import FaultyDisk, PowerLost, apply_retention, block_of, small_config


def make_idle(bench):
    """A store whose queue quiet:0 has reached 4, and retention has taken all of that."""
    bench.config = replace(bench.config, disk_clean_ratio=0.5, disk_force_ratio=0.5)
    store = bench.open()
    store.append(block_of("quiet", [b"x"] * 4), 0)
    while store.max_offset <= 2 * store.config.segment_bytes:
        store.append(block_of("loud", [b"y" * 1000] * 3), 0)
    store.flush_derived()
    bench.disk.used_ratio = 0.9
    apply_retention(store)
    bench.disk.used_ratio = None
    assert store.min_offset > 0
    return store


def forget(bench, *names):
    for name in names:
        for suffix in ("", ".bak", ".sums"):
            bench.disk.remove(bench.root / (name + suffix))


@pytest.mark.parametrize("noted", [False, True])
def test_a_store_of_another_program_says_where_its_idle_queues_are(bench, noted):
    """It has no checkpoint of ours and no list of idle queues: only its consume queues."""
    make_idle(bench).close()
    forget(bench, "checkpoint", "layout.json", *([] if noted else ["idle-queues.json"]))
    for _ in range(2):
        store = bench.open()
        assert store.queue_bounds("quiet", 0)[1] == 4
        bench.disk = bench.disk.kill()
    store = bench.open()
    assert store.append(block_of("quiet", [b"x"]), 0).first_queue_offset == 4
    store.close()


def lose_last_record(bench):
    """A store whose newest record, of flights:0, is durable and damaged."""
    store = bench.open()
    appended = store.append(block_of("flights", [b"x" * 200] * 5), 0)
    store.append(block_of("flights", [b"y"]), 1)
    last = store.append(block_of("flights", [b"x" * 200]), 0)
    store.close()
    assert (appended.first_queue_offset, last.first_queue_offset) == (0, 5)
    path = bench.segment_path(0)
    content = bytearray(bench.disk.read(path))
    content[last.first_commit_log_offset + 100] ^= 1
    bench.disk.write(path, bytes(content))


def test_a_rebuild_uses_no_queue_offset_again(bench):
    lose_last_record(bench)
    store = bench.open(rebuild=True)
    assert store.recovery.rebuilt == ("consume queues", "index")
    assert len(store.damage) == 1
    assert store.queue_bounds("flights", 0) == (0, 6)
    assert store.queue_bounds("flights", 1) == (0, 1)
    read = store.read_queue("flights", 0, 0, max_count=9, max_bytes=1 << 20)
    assert (read.count, read.next_queue_offset) == (5, 6)
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_rebuild_may_be_interrupted_anywhere(bench, seed):
    lose_last_record(bench)
    content = {}
    for folder in ("", "commitlog", "config", "consumequeue/flights/0", "consumequeue/flights/1"):
        for name in bench.disk.names(bench.root / folder):
            path = bench.root / folder / name
            if not bench.disk.is_folder(path):
                content[path] = bench.disk.read(path)
    step = 0
    while True:
        step += 1
        disk = FaultyDisk()
        for path, kept in content.items():
            disk.make_folders(path.parent)
            disk.write(path, kept)
            disk.sync(folders=[path.parent])
        disk.power_fails_at = disk.steps + step
        bench.disk = disk
        try:
            bench.open(rebuild=True).close()
        except PowerLost:
            bench.disk = disk.lose_power(seed)
            store = bench.open()
            assert store.queue_bounds("flights", 0)[1] == 6, step
            store.close()
        else:
            break
    assert step > 20


def test_what_cannot_be_read_stops_a_rebuild_before_anything_is_removed(tmp_path):
    root = tmp_path / "s"
    with Store.open(root, small_config()) as store:
        store.append(block_of("flights", [b"x"]), 0)
    (root / "idle-queues.json").write_text("[\n")
    found = CliRunner().invoke(store_group, ["fsck", str(root)])
    assert found.exit_code == 1
    assert "idle queues" in found.output
    refused = CliRunner().invoke(store_group, ["rebuild", str(root)])
    assert refused.exit_code == 2
    assert (root / "consumequeue" / "flights" / "0").is_dir()
    with pytest.raises(StateFileDamaged):
        Store.open(root, small_config(), rebuild=True)


def test_a_queue_that_is_not_there_is_named(tmp_path):
    root = tmp_path / "s"
    with Store.open(root, small_config()) as store:
        store.append(block_of("flights", [b"x"]), 3)
    for queue, said in (("flights:0", "flights has 3"), ("trains:0", "nor any of trains")):
        result = CliRunner().invoke(store_group, ["dump", str(root), "--queue", queue])
        assert result.exit_code == 2
        assert said in result.output
