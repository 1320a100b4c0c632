"""Stores with files missing or empty, and stores that another program wrote."""

from __future__ import annotations

import json
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ariane_record import encode_record
from ariane_storage import (
    StateFileDamaged,
    Store,
    StoreConfig,
    StoreFormatError,
    StorePoisoned,
)
from ariane_storage.commands import store as store_group
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.testing import apply_retention, block_of, small_config


def run(*arguments):
    return CliRunner().invoke(store_group, [str(argument) for argument in arguments])


def remove_segments(bench, count):
    names = bench.disk.names(bench.root / "commitlog")
    for name in names[-count:]:
        bench.disk.remove(bench.root / "commitlog" / name)
    return [int(name) for name in names]


@pytest.mark.parametrize("all_of_them", [False, True])
def test_segments_missing_at_the_end_are_a_gap_and_no_offset_is_used_again(
    bench, fill, read_all, all_of_them
):
    store = bench.open()
    fill(store, blocks=20)
    bounds = {queue: store.queue_bounds(*queue) for queue in store.queues()}
    end = store.max_offset
    store.close()
    count = len(bench.disk.names(bench.root / "commitlog"))
    starts = remove_segments(bench, count if all_of_them else 2)
    first_lost = 0 if all_of_them else starts[-2]
    gap_end = starts[-1] + bench.config.segment_bytes
    store = bench.open()
    assert store.recovery.damage == (Damage(first_lost, gap_end, DamageReason.SEGMENT_MISSING),)
    assert store.max_offset >= end
    for queue, (_, high) in bounds.items():
        assert store.queue_bounds(*queue)[1] == high
        assert all(m.commit_log_offset < first_lost for m in read_all(store, *queue))
        appended = store.append(block_of(queue[0], [b"on"]), queue[1])
        assert appended.first_queue_offset == high
    store.close()
    store = bench.open()
    assert [m.body for m in read_all(store, "flights", 0)][-1] == b"on"
    store.close()


def test_a_gap_in_front_of_the_checkpoint_is_declared_when_the_store_is_opened(bench, fill):
    store = bench.open()
    fill(store, blocks=40)
    store.close()
    bench.disk.remove(bench.segment_path(8192))
    store = bench.open()
    assert store.recovery.damage == (Damage(8192, 16384, DamageReason.SEGMENT_MISSING),)
    store.close()


@pytest.mark.parametrize("command", ["verify", "fsck"])
def test_a_missing_last_segment_is_a_finding(tmp_path, fill, command):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    last = max((tmp_path / "s" / "commitlog").iterdir())
    last.unlink()
    result = run(command, tmp_path / "s", "-o", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["damaged"] == 1 if command == "verify" else found[0]["reason"] == "segment missing"


@pytest.mark.parametrize("command", ["verify", "fsck", "dump"])
def test_an_empty_last_segment_stops_no_command(tmp_path, fill, command):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    last = max((tmp_path / "s" / "commitlog").iterdir())
    last.with_name(f"{int(last.name) + 8192:020d}").write_bytes(b"")
    result = run(command, tmp_path / "s")
    assert (result.exit_code, result.exception) == (0, None)


def test_an_empty_index_file_is_a_finding_and_built_again(tmp_path, fill):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    for path in (tmp_path / "s" / "index").iterdir():
        path.write_bytes(b"")
    (row,) = json.loads(run("fsck", tmp_path / "s", "-o", "json").stdout)
    assert (row["where"], row["reason"]) == ("index", "0 bytes long, 904 are configured")
    with Store.open(tmp_path / "s", small_config()) as store:
        assert store.recovery.rebuilt == ("index",)
        assert len(store.query_by_key("flights", "N1")) == 6


@pytest.mark.parametrize("segment_bytes", [4096, 16384])
def test_segments_of_another_program_are_left_alone_by_the_wrong_sizes(bench, fill, segment_bytes):
    store = bench.open()
    fill(store)
    store.close()
    for name in ("layout.json", "layout.json.sums", "checkpoint"):
        bench.disk.remove(bench.root / name)
    with pytest.raises(StoreFormatError, match=f"8192 bytes, but segments of {segment_bytes}"):
        Store.open(bench.root, small_config(segment_bytes=segment_bytes), disk=bench.disk)
    store = bench.open()
    assert store.recovery.records == 36
    assert store.damage == ()
    store.close()


def write_foreign(bench, records) -> None:
    """Lay down records without a checksum of themselves as the log of another program."""
    opened = bench.open()
    opened.append(block_of("flights", [b"x" * 100]), 0)
    usual = opened.message_at(0)
    opened.close()
    log = b""
    for changes in records:
        fields = replace(usual, commit_log_offset=len(log), **changes)
        log += encode_record(fields, checksum=False)
    bench.disk.remove(bench.root / "checkpoint")
    bench.disk.write(bench.segment_path(0), log.ljust(8192, b"\0"))


@pytest.mark.parametrize("topic", ["../../etc/x", "", "a/b", "a.b", "\0", "Flüge"])
def test_a_topic_that_names_no_folder_does_not_close_the_store(bench, read_all, topic):
    write_foreign(bench, [{}, {"topic": topic}, {"queue_offset": 1}])
    store = bench.open()
    assert [m.queue_offset for m in read_all(store, "flights", 0)] == [0, 1]
    assert store.queues() == [("flights", 0)]
    assert [damage.reason for damage in store.damage] == [DamageReason.QUEUE]
    assert store.message_at(store.damage[0].begin).topic == topic
    store.close()


@pytest.mark.parametrize("place", [0, 1, 5, 9])
@pytest.mark.parametrize("bit", [*range(8), 20, 44, 62])
def test_a_flipped_queue_offset_that_no_checksum_covers_costs_that_record_only(
    bench, read_all, place, bit
):
    offsets = list(range(10))
    offsets[place] ^= 1 << bit
    write_foreign(bench, [{"queue_offset": offset} for offset in offsets])
    store = bench.open()
    read = [m.queue_offset for m in read_all(store, "flights", 0)]
    # Of the first and the last record of all nobody can say that they are wrong.
    if place not in {0, 9}:
        assert read == [offset for offset in range(10) if offset != place]
    assert len(read) >= 9
    store.close()


def test_a_topic_that_was_deleted_and_made_again_begins_at_nothing(bench, read_all):
    write_foreign(bench, [{"queue_offset": offset} for offset in (0, 1, 2, 3, 0, 1)])
    store = bench.open()
    assert [m.queue_offset for m in read_all(store, "flights", 0)] == [0, 1]
    store.close()


@pytest.fixture
def few_descriptors():
    """Two hundred descriptors more than there are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 200, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_descriptors")
def test_a_log_of_very_many_segments_takes_few_descriptors(tmp_path):
    config: StoreConfig = replace(small_config(segment_bytes=4096), files_open_max=3)
    with Store.open(tmp_path / "s", config) as store:
        for _ in range(160):
            store.append(block_of("flights", [b"x" * 1700] * 2), 0)
            store.flush()
    for arguments in (["verify"], ["dump"], ["dump", "--queue", "flights:0"], ["rebuild"]):
        assert run(arguments[0], tmp_path / "s", *arguments[1:]).exit_code == 0
    (tmp_path / "s" / "checkpoint").unlink()
    with Store.open(tmp_path / "s", config) as store:
        assert store.recovery.records == 320


def test_a_folder_that_is_removed_beside_us_stops_the_store_with_a_reason(tmp_path):
    store = Store.open(tmp_path / "s", small_config())
    store.append(block_of("flights", [b"x" * 900] * 2), 0)
    shutil.rmtree(tmp_path / "s")

    def go_on():
        for _ in range(20):
            store.append(block_of("flights", [b"x" * 900] * 2), 0)
            store.flush_derived()

    with pytest.raises(StorePoisoned, match="No such file or directory"):
        go_on()
    with pytest.raises(StorePoisoned):
        store.append(block_of("flights", [b"never"]), 0)
    # What was written is still served, until somebody closes it.
    assert store.read_queue("flights", 0, 0, max_count=1, max_bytes=1).count == 1
    store.close()


def test_a_log_that_went_on_behind_a_gap_and_vanished_again(bench):
    """Nothing but the checkpoint says where the log was."""
    store = bench.open()
    store.append(block_of("flights", [b"x"]), 0)
    store.close()
    for _ in range(3):
        for name in bench.disk.names(bench.root / "commitlog"):
            bench.disk.remove(bench.root / "commitlog" / name)
        store = bench.open()
        assert store.max_offset == bench.config.segment_bytes
        assert store.queue_bounds("flights", 0)[1] == 1
        bench.disk = bench.disk.kill()


def test_first_files_of_a_queue_that_are_gone_are_built_again(bench, read_all):
    store = bench.open()
    entries = bench.config.consume_queue_file_entries
    for number in range(entries + 5):
        store.append(block_of("flights", [b"%d" % number]), 0)
        store.append(block_of("delays", [b"x"]), 0)
    store.close()
    bench.disk.remove(bench.root / "consumequeue" / "flights" / "0" / f"{0:020d}")
    store = bench.open()
    assert store.recovery.rebuilt == ("consume queues",)
    assert store.queue_bounds("flights", 0) == (0, entries + 5)
    assert [int(m.body) for m in read_all(store, "flights", 0)] == list(range(entries + 5))
    store.close()


def test_first_files_that_retention_has_removed_are_missed_by_nobody(bench, fill):
    store = bench.open()
    fill(store, blocks=90)
    bench.disk.used_ratio = 0.95
    apply_retention(store)
    assert any(store.queue_bounds(*queue)[0] > 16 for queue in store.queues())
    bench.disk.used_ratio = 0.1
    store.close()
    store = bench.open()
    assert (store.recovery.rebuilt, store.recovery.lost_begin) == ((), None)
    store.close()


def test_first_segments_that_are_gone_are_told(bench, fill):
    store = bench.open()
    fill(store, blocks=40)
    store.close()
    bench.disk.remove(bench.segment_path(0))
    store = bench.open()
    assert store.recovery.lost_begin == Damage(0, 8192, DamageReason.SEGMENT_MISSING)
    store.close()
    store = bench.open()
    assert store.recovery.lost_begin is None
    store.close()


@pytest.mark.parametrize("name", ["deleted-topics.json", "idle-queues.json"])
@pytest.mark.parametrize("content", ['{"topics": [1], "queues": [1]}', "{"])
def test_state_that_cannot_be_read_leaves_the_store_as_it_is(tmp_path, fill, name, content):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    (tmp_path / "s" / name).write_text(content)
    with pytest.raises(StateFileDamaged, match=name):
        Store.open(tmp_path / "s", small_config(), rebuild=True)
    assert not (tmp_path / "s" / "abort").exists()
    result = run("fsck", tmp_path / "s", "-o", "json")
    assert result.exit_code == 1
    assert name in result.stdout


@pytest.mark.parametrize("place", ["commitlog", "consumequeue/flights/0", "index"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path, fill, place):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    path = min((tmp_path / "s" / place).iterdir())
    path.unlink()
    path.mkdir()
    result = run("verify", tmp_path / "s")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        f"ariane store: {path}: Is a directory; the store needs a file there:"
        " move the folder away\n"
    )
