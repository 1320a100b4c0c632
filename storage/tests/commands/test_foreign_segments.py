"""Files with a segment's name that somebody has put into the commit log."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ariane_storage import Damage, DamageReason, Store, StoreFormatError, StoreFull
from ariane_storage.commands import store as store_group
from ariane_storage.testing import FaultyDisk, apply_retention, block_of, small_config

SEGMENT = small_config().segment_bytes
CONTENTS = {
    "empty": b"",
    "zeros": bytes(SEGMENT),
    "short": b"not of ours",
    "noise": b"\xda\xa3\x20\xa7noise\0" * 800,
}
QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]


def run(*arguments):
    return CliRunner().invoke(store_group, [str(argument) for argument in arguments])


def all_of(store, read_all):
    return {queue: read_all(store, *queue) for queue in QUEUES}


def leave(bench, store, how):
    """End a store in one of the ways in which it can end."""
    if how == "crash":
        bench.disk = bench.disk.kill()
        return
    store.close()
    if how == "no checkpoint":
        bench.disk.remove(bench.root / "checkpoint")


@pytest.mark.parametrize("how", ["stop", "crash", "no checkpoint"])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("beyond", [2, 3, 5])
def test_a_stray_file_behind_the_log_costs_no_message(bench, fill, read_all, how, content, beyond):
    store = bench.open()
    fill(store, blocks=20)
    last = store.max_offset - store.max_offset % SEGMENT
    before = all_of(store, read_all)
    leave(bench, store, how)
    stray = bench.segment_path(last + beyond * SEGMENT)
    bench.disk.write(stray, CONTENTS[content])
    store = bench.open()
    assert store.recovery.set_aside == (f"{stray.name}.foreign",)
    assert all_of(store, read_all) == before
    assert store.damage == ()
    fill(store, blocks=30, length=1200)
    assert store.max_offset > last + (beyond + 2) * SEGMENT
    after = all_of(store, read_all)
    counts = {queue: len(messages) for queue, messages in after.items()}
    assert sum(counts.values()) == 3 * 50
    assert counts == {queue: store.queue_bounds(*queue)[1] for queue in QUEUES}
    leave(bench, store, how)
    store = bench.open()
    assert all_of(store, read_all) == after
    assert (store.damage, store.recovery.set_aside) == ((), ())
    assert bench.disk.read(stray.with_name(f"{stray.name}.foreign")) == CONTENTS[content]
    store.close()


@pytest.mark.parametrize("how", ["stop", "crash", "no checkpoint"])
@pytest.mark.parametrize("start", [1, SEGMENT - 1, SEGMENT + 8, 9 * SEGMENT + 100])
def test_a_name_that_is_no_segments_is_set_aside(bench, fill, read_all, how, start):
    store = bench.open()
    fill(store, blocks=20)
    before = all_of(store, read_all)
    leave(bench, store, how)
    bench.disk.write(bench.segment_path(start), b"anything")
    store = bench.open()
    assert store.recovery.set_aside == (f"{start:020d}.foreign",)
    assert all_of(store, read_all) == before
    store.close()


def test_records_under_a_name_that_is_no_segments_are_refused_by_name(bench, fill):
    other = FaultyDisk()
    with Store.open(bench.root, small_config(segment_bytes=4096), disk=other) as store:
        fill(store)
    with bench.open() as store:
        fill(store)
    path = bench.segment_path(4096)
    bench.disk.write(path, other.read(path))
    with pytest.raises(StoreFormatError, match="holds records") as refusal:
        bench.open()
    assert refusal.value.path == path


@pytest.mark.parametrize("content", CONTENTS)
def test_a_stray_file_in_front_of_the_log(bench, fill, read_all, content):
    store = bench.open()
    fill(store, blocks=90)
    bench.disk.used_ratio = 0.95
    apply_retention(store)
    bench.disk.used_ratio = None
    begin, before = store.min_offset, all_of(store, read_all)
    assert begin > SEGMENT
    store.close()
    bench.disk.write(bench.segment_path(0), CONTENTS[content])
    store = bench.open()
    assert store.recovery.set_aside == (f"{0:020d}.foreign",)
    assert (store.min_offset, all_of(store, read_all)) == (begin, before)
    store.close()


def test_a_segment_of_another_history_behind_a_stopped_log_is_set_aside(bench, fill, read_all):
    """Its records lie where they say: only where the log had ended tells that they are foreign."""
    other = FaultyDisk()
    with Store.open(bench.root, bench.config, disk=other) as store:
        fill(store, blocks=60)
    with bench.open() as store:
        fill(store, blocks=10)
        store.keeping.prepare_next_segment()
        before = all_of(store, read_all)
        following = store.max_offset - store.max_offset % SEGMENT + SEGMENT
    for start in (following, following + SEGMENT, following + 3 * SEGMENT):
        bench.disk.write(bench.segment_path(start), other.read(bench.segment_path(start)))
    store = bench.open()
    assert len(store.recovery.set_aside) == 3
    assert all_of(store, read_all) == before
    fill(store, blocks=60)
    assert sum(map(len, all_of(store, read_all).values())) == 3 * 70
    bench.disk = bench.disk.kill()
    store = bench.open()
    assert sum(map(len, all_of(store, read_all).values())) == 3 * 70
    assert store.damage == ()


def test_a_segment_that_was_made_ready_is_kept(bench, fill):
    with bench.open() as store:
        fill(store, blocks=3)
        store.keeping.prepare_next_segment()
    store = bench.open()
    assert store.recovery.set_aside == ()
    assert bench.disk.size_of(bench.segment_path(SEGMENT)) == SEGMENT
    store.close()


@pytest.mark.parametrize("how", ["stop", "crash", "no checkpoint"])
def test_a_gap_with_records_behind_it_is_damage_and_nothing_foreign(bench, fill, how):
    store = bench.open()
    fill(store, blocks=40)
    end = store.max_offset
    leave(bench, store, how)
    bench.disk.remove(bench.segment_path(SEGMENT))
    store = bench.open()
    assert store.recovery.set_aside == ()
    assert store.damage == (Damage(SEGMENT, 2 * SEGMENT, DamageReason.SEGMENT_MISSING),)
    assert store.max_offset == end
    store.close()


def test_an_empty_segment_behind_a_vanished_last_one_hides_no_loss(bench, fill):
    """The one that was made ready is left, the one with the end of the log is gone."""
    with bench.open() as store:
        fill(store, blocks=20)
        store.keeping.prepare_next_segment()
        end = store.max_offset
    last = end - end % SEGMENT
    bench.disk.remove(bench.segment_path(last))
    store = bench.open()
    assert store.damage == (Damage(last, last + SEGMENT, DamageReason.SEGMENT_MISSING),)
    appended = store.append(block_of("flights", [b"on"]), 0)
    assert appended.first_commit_log_offset == last + SEGMENT
    store.close()
    store = bench.open()
    assert store.message_at(last + SEGMENT).body == b"on"
    store.close()


def test_names_that_were_given_before_are_not_taken_again(bench, fill):
    with bench.open() as store:
        fill(store)
    stray = bench.segment_path(64 * SEGMENT)
    for number, name in enumerate([".foreign", ".foreign.2", ".foreign.3"]):
        bench.disk.write(stray, b"%d" % number)
        with bench.open() as store:
            assert store.recovery.set_aside == (f"{stray.name}{name}",)
    assert bench.disk.read(stray.with_name(f"{stray.name}.foreign")) == b"0"
    assert bench.disk.read(stray.with_name(f"{stray.name}.foreign.3")) == b"2"


def test_a_file_that_comes_while_the_store_is_open_is_refused_until_it_is_gone(bench, fill):
    store = bench.open()
    fill(store, blocks=2)
    stray = bench.segment_path(SEGMENT)
    bench.disk.write(stray, b"noise")
    with pytest.raises(StoreFull, match=f"commitlog/{stray.name} is there already"):
        store.keeping.prepare_next_segment()
    with pytest.raises(StoreFull, match=stray.name):
        fill(store, blocks=40)
    assert bench.disk.read(stray) == b"noise"
    bench.disk.remove(stray)
    fill(store, blocks=40)
    assert store.max_offset > 2 * SEGMENT
    store.close()


def test_a_segment_without_a_descriptor_is_made_again_later(bench, fill, monkeypatch):
    store = bench.open()
    fill(store, blocks=2)
    real_open = bench.disk.open

    def no_descriptor(*_arguments, **_options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(bench.disk, "open", no_descriptor)
    with pytest.raises(StoreFull, match="Too many open files"):
        store.keeping.prepare_next_segment()
    monkeypatch.setattr(bench.disk, "open", real_open)
    fill(store, blocks=40)
    assert store.max_offset > 2 * SEGMENT
    store.close()


def test_fsck_names_a_foreign_file_and_its_repair_sets_it_aside(tmp_path, fill):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    stray = tmp_path / "s" / "commitlog" / f"{9 * SEGMENT:020d}"
    stray.write_bytes(b"noise")
    found = run("fsck", tmp_path / "s", "-o", "json")
    assert found.exit_code == 1
    (row,) = json.loads(found.stdout)
    assert (row["where"], row["state"]) == ("foreign file", "open")
    assert row["path"] == f"commitlog/{stray.name}"
    assert stray.read_bytes() == b"noise"
    rows = json.loads(run("fsck", "--repair", tmp_path / "s", "-o", "json").stdout)
    assert (rows[0]["where"], rows[0]["state"]) == ("foreign file", "set aside")
    assert stray.with_name(f"{stray.name}.foreign").read_bytes() == b"noise"
    assert run("fsck", tmp_path / "s").exit_code == 0
