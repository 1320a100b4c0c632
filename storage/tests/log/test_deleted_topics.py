"""Deleted topics stay deleted, whatever is built again from the log that has their records."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ariane_storage import StateFileDamaged, Store, StoreFull
from ariane_storage.commands import store as store_group
from ariane_storage.testing import FaultyDisk, PowerLost, apply_retention, block_of, small_config


def live_until_deleted(bench) -> Store:
    """Two topics, one of them deleted; records of both are in the log."""
    store = bench.open()
    for step in range(6):
        store.append(block_of("flights", [b"old"] * 5, keys=[("K",)] * 5), step % 2)
        store.append(block_of("delays", [b"stays"], keys=[("K",)]), 0)
    store.flush_derived()
    store.append(block_of("flights", [b"newest"], keys=[("K",)]), 1)
    assert store.keeping.delete_queues("flights") == 2
    return store


LOST = ["nothing", "checkpoint", "consumequeue", "index", "abort"]


def lose(bench, what):
    for path in list(bench.disk.paths()):
        if what in path.relative_to(bench.root).parts:
            bench.disk.remove(path)


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("lost", LOST)
def test_a_rebuild_does_not_bring_a_deleted_topic_back(bench, read_all, lost, stop):
    store = live_until_deleted(bench)
    if stop == "clean":
        store.close()
    else:
        bench.disk = bench.disk.kill()
    lose(bench, lost)
    store = bench.open()
    assert store.queues() == [("delays", 0)]
    assert len(read_all(store, "delays", 0)) == 6
    assert store.query_by_key("flights", "K") == []
    assert len(store.query_by_key("delays", "K")) == 6
    store.close()


@pytest.mark.parametrize("lost", LOST)
def test_a_topic_made_again_starts_clean_and_stays_so(bench, read_all, lost):
    store = live_until_deleted(bench)
    made_again = store.append(block_of("flights", [b"new"] * 3, keys=[("K",)]), 1)
    assert made_again.first_queue_offset == 0
    store.close()
    lose(bench, lost)
    store = bench.open()
    assert store.queues() == [("delays", 0), ("flights", 1)]
    assert [m.body for m in read_all(store, "flights", 1)] == [b"new"] * 3
    assert [m.body for m in store.query_by_key("flights", "K")] == [b"new"]
    assert store.append(block_of("flights", [b"old queue"]), 0).first_queue_offset == 0
    assert store.append(block_of("flights", [b"on"]), 1).first_queue_offset == 3
    store.close()


def test_power_lost_at_every_step_of_a_deletion(bench, read_all):
    def life(disk, done):
        at_work = replace(bench, disk=disk)
        store = at_work.open()
        store.append(block_of("flights", [b"old"] * 10), 0)
        store.append(block_of("delays", [b"stays"] * 10), 0)
        store.flush_derived()
        done.append("written")
        store.keeping.delete_queues("flights")
        done.append("deleted")
        store.append(block_of("flights", [b"new"] * 2), 0)
        store.flush_derived()
        done.append("made again")

    undisturbed = FaultyDisk()
    life(undisturbed, [])
    outcomes = set()
    for step in range(1, undisturbed.steps + 1):
        disk, done = FaultyDisk(power_fails_at=step), []
        with pytest.raises(PowerLost):
            life(disk, done)
        survivor = replace(bench, disk=disk.lose_power(step))
        for lost in ("nothing", "checkpoint"):
            lose(survivor, lost)
            store = survivor.open()
            bodies = [m.body for m in read_all(store, "flights", 0)]
            stays = read_all(store, "delays", 0)
            store.close()
            # Before or after, and never both in one queue.
            assert len(set(bodies)) <= 1, (step, bodies)
            if "written" in done:
                assert len(stays) == 10, step
                assert bodies[:1] != [b"old"] or len(bodies) == 10, step
            if "deleted" in done:
                assert b"old" not in bodies, step
            outcomes.add(tuple(bodies[:1]))
    assert outcomes == {(), (b"old",), (b"new",)}


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_power_lost_at_every_step_of_deleting_several_topics(bench, read_all, every):
    """All of them or none, also where one is made again before the files of its queues are gone."""
    topics = ["flights", "trains", "ships"]

    def life(disk, done):
        at_work = replace(bench, disk=disk)
        store = at_work.open()
        for topic in [*topics, "delays"]:
            store.append(block_of(topic, [b"old"] * 10, keys=[("K",)] * 10), 0)
            store.append(block_of(topic, [b"old"] * 9), 1)
        store.flush_derived()
        done.append("written")
        store.append(block_of("flights", [b"old"] * 2), 0)
        deletion = store.keeping.let_go_of_topics(topics)
        assert store.queues() == [("delays", 0), ("delays", 1)]
        store.append(block_of("delays", [b"old"]), 0)
        store.flush_derived()
        store.keeping.finish_deletion(deletion)
        done.append("deleted")
        store.append(block_of("flights", [b"new"] * 3, keys=[("K",)] * 3), 0)
        store.flush_derived()
        done.append("made again")
        store.append(block_of("flights", [b"new"]), 0)
        store.flush_derived()

    undisturbed = FaultyDisk()
    life(undisturbed, [])
    outcomes = set()
    for step in range(1, undisturbed.steps + 1, every):
        disk, done = FaultyDisk(power_fails_at=step), []
        with pytest.raises(PowerLost):
            life(disk, done)
        survivor = replace(bench, disk=disk.lose_power(step))
        for lost in ("nothing", "checkpoint"):
            lose(survivor, lost)
            store = survivor.open()
            bodies = {
                topic: [m.body for queue in (0, 1) for m in read_all(store, topic, queue)]
                for topic in topics
            }
            stays = [len(read_all(store, "delays", queue)) for queue in (0, 1)]
            found = {m.body for m in store.query_by_key("flights", "K")}
            store.close()
            for topic in topics:
                assert len(set(bodies[topic])) <= 1, (step, lost, bodies)
            kinds = [bool(bodies["trains"]), bool(bodies["ships"])]
            if "written" in done:
                assert stays[0] >= 10, (step, lost)
                assert stays[1] == 9, (step, lost)
                assert len(set(kinds)) == 1, (step, lost)
                assert not kinds[0] or b"new" not in bodies["flights"], (step, lost)
            if "deleted" in done:
                assert kinds == [False, False], (step, lost)
                assert b"old" not in {*bodies["flights"], *found}, (step, lost)
            if "made again" in done:
                assert bodies["flights"][:3] == [b"new"] * 3, (step, lost)
            if "written" in done:
                outcomes.add((kinds[0], *bodies["flights"][:1]))
    assert outcomes == {(False,), (True, b"old"), (False, b"new")}


def test_a_deletion_is_noted_at_once_and_files_go_with_the_next_flush(bench):
    store = live_until_deleted(bench)
    folder = bench.root / "consumequeue" / "flights"
    assert bench.disk.names(folder) == ["0", "1"]
    store.flush_derived()
    assert not bench.disk.is_folder(folder)
    checkpoint = store.keeping._checkpoint_file.load()
    assert checkpoint.queue_count == 1
    store.close()


def test_a_kill_before_the_files_are_gone_costs_no_rebuild(bench):
    live_until_deleted(bench)
    store = bench.reopen_after_kill()
    assert store.recovery.rebuilt == ()
    assert store.queues() == [("delays", 0)]
    assert not bench.disk.is_folder(bench.root / "consumequeue" / "flights")
    store.close()


def test_a_deletion_that_is_taken_back_has_not_been(bench, read_all):
    store = bench.open()
    store.append(block_of("flights", [b"x"] * 3), 0)
    deletion = store.keeping.let_go_of_topics({"flights", "none"})
    assert deletion.ends.keys() == {"flights", "none"}
    assert store.queues() == []
    store.flush_derived()
    store.keeping.take_back(deletion)
    assert store.append(block_of("flights", [b"x"]), 0).first_queue_offset == 3
    store = bench.reopen_after_kill()
    assert len(read_all(store, "flights", 0)) == 4
    store.close()


def test_what_is_noted_goes_with_the_records(bench):
    store = live_until_deleted(bench)
    noted = bench.root / "deleted-topics.json"
    assert json.loads(bench.disk.read(noted)) == {"topics": {"flights": store.max_offset}}
    while store.max_offset <= 3 * store.config.segment_bytes:
        store.append(block_of("delays", [b"x" * 900] * 2), 0)
    bench.disk.used_ratio = 0.95
    apply_retention(store)
    assert json.loads(bench.disk.read(noted)) == {"topics": {}}
    store.close()


def test_an_end_beyond_that_of_the_log_counts_only_up_to_it(bench, read_all):
    store = live_until_deleted(bench)
    store.close()
    # Somebody has taken the log away, and goes on with an empty one.
    for folder in ("commitlog", "consumequeue", "index", "checkpoint"):
        lose(bench, folder)
    store = bench.open()
    assert store.append(block_of("flights", [b"new"]), 0).first_queue_offset == 0
    store.close()
    lose(bench, "checkpoint")
    store = bench.open()
    assert [m.body for m in read_all(store, "flights", 0)] == [b"new"]
    store.close()


def test_an_idle_queue_of_a_deleted_topic_stays_away(bench):
    store = bench.open()
    store.append(block_of("flights", [b"idle"] * 4), 0)
    while store.max_offset <= 2 * store.config.segment_bytes:
        store.append(block_of("delays", [b"x" * 900] * 2), 0)
    bench.disk.used_ratio = 0.95
    apply_retention(store)
    assert store.queue_bounds("flights", 0) == (4, 4)
    store.keeping.delete_queues("flights")
    store.close()
    lose(bench, "checkpoint")
    bench.disk.used_ratio = 0.1
    store = bench.open()
    assert store.queues() == [("delays", 0)]
    assert store.append(block_of("flights", [b"new"]), 0).first_queue_offset == 0
    store.close()


def test_a_full_disk_deletes_nothing(bench, read_all, monkeypatch):
    store = bench.open()
    store.append(block_of("flights", [b"x"] * 3), 0)
    store.flush_derived()
    with monkeypatch.context() as patch:
        patch.setattr(bench.disk, "write", no_space)
        with pytest.raises(StoreFull, match="flights is deleted"):
            store.keeping.delete_queues("flights")
    assert len(read_all(store, "flights", 0)) == 3
    assert store.keeping.delete_queues("flights") == 1
    store.close()


def no_space(path, content):
    raise OSError(28, "No space left on device")


def test_a_note_that_cannot_be_read_is_refused_not_guessed(bench):
    store = live_until_deleted(bench)
    store.close()
    bench.disk.write(bench.root / "deleted-topics.json", b"{")
    bench.disk.remove(bench.root / "deleted-topics.json.bak")
    with pytest.raises(StateFileDamaged, match=r"deleted-topics\.json"):
        bench.open()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_queues_that_a_kill_has_left_are_no_damage(tmp_path, is_made_again):
    root = tmp_path / "store"
    with Store.open(root, small_config()) as store:
        store.append(block_of("flights", [b"old"] * 20), 0)
        store.flush_derived()
        store.keeping.delete_queues("flights")
        if is_made_again:
            store.append(block_of("flights", [b"new"] * 3), 0)
        shutil.copytree(root, tmp_path / "copy")
    result = CliRunner().invoke(store_group, ["fsck", str(tmp_path / "copy"), "-o", "json"])
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    result = CliRunner().invoke(store_group, ["fsck", str(tmp_path / "copy"), "--repair"])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        f"{20 + 3 * is_made_again} records, no problem found",
    )
    assert (tmp_path / "copy" / "consumequeue" / "flights").exists() == is_made_again


def test_the_commands_know_of_deleted_topics(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(store_group, [str(argument) for argument in arguments])

    root = tmp_path / "store"
    with Store.open(root, small_config()) as store:
        store.append(block_of("flights", [b"old"] * 20), 0)
        store.append(block_of("delays", [b"stays"] * 3), 0)
        store.keeping.delete_queues("flights")
    for _ in range(2):
        figures = json.loads(run("verify", root, "-o", "json").stdout)
        assert (figures["records"], figures["queues"], figures["findings"]) == (23, 1, 0)
        assert figures["topics"] == 1
        assert json.loads(run("rebuild", root, "-o", "json").stdout)["queues"] == 1
    (root / "deleted-topics.json").write_text("{")
    findings = json.loads(run("fsck", root, "-o", "json").stdout)
    assert findings[0]["where"] == "deleted topics"
    assert findings[1] == {
        "where": "consume queue",
        "reason": "entries missing",
        "begin": 0,
        "end": 20,
        "topic": "flights",
        "queue_id": 0,
        "path": f"consumequeue/flights/0/{0:020d}",
        "position": 0,
        "state": "open",
    }
