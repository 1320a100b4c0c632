"""``ariane store``: what operators see of a closed store."""

from __future__ import annotations

import errno
import json
import zlib
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
import yaml
import zstandard
from click.testing import CliRunner

from ariane_ordering import java_string_hash
from ariane_record import SystemFlag
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store
from ariane_storage.commands import store as store_group
from ariane_storage.queues.consume_queue_entry import ENTRY, ENTRY_BYTES, holes
from ariane_storage.testing import block_of, small_config

NAMES = {
    *("commit_log_offset", "size", "topic", "queue_id", "queue_offset", "tags", "keys"),
    *("unique_id", "system_flag", "flag", "born_timestamp", "store_timestamp"),
    *("prepared_transaction_offset", "body_length", "body_crc32", "properties"),
}


@pytest.fixture
def root(tmp_path, fill):
    """A closed store of 60 records in three queues and several segments."""
    with Store.open(tmp_path / "store", small_config()) as store:
        fill(store, blocks=20)
    return tmp_path / "store"


def run(*arguments):
    return CliRunner().invoke(store_group, [str(argument) for argument in arguments])


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def flip(root: Path, position: int) -> None:
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def snapshot(root: Path):
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def test_the_group_is_registered():
    (point,) = entry_points(group="ariane.commands", name="store")
    assert point.load() is store_group


@pytest.mark.parametrize("command", ["dump", "verify", "fsck", "rebuild"])
def test_every_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"ariane store {command} /var/lib/ariane/broker-a" in result.stdout


def test_dump_prints_every_record_in_log_order(root):
    rows = objects(run("dump", root, "-o", "jsonl"))
    assert len(rows) == 60
    offsets = [row["commit_log_offset"] for row in rows]
    assert offsets == sorted(offsets)
    first = rows[0]
    assert set(first) >= NAMES
    body = b"0.0;" * 50
    assert (first["body_length"], first["body_crc32"]) == (len(body), zlib.crc32(body))
    assert (first["topic"], first["queue_id"], first["queue_offset"]) == ("flights", 0, 0)
    assert (first["tags"], first["keys"], first["unique_id"]) == ("arrived", ["N0"], "U0-0")
    assert first["properties"] == {"KEYS": "N0", "TAGS": "arrived", "UNIQ_KEY": "U0-0"}
    assert json.loads(run("dump", root, "-o", "json").stdout) == rows
    assert yaml.safe_load(run("dump", root, "-o", "yaml").stdout) == rows
    table = run("dump", root, "--max-count", 2).stdout.splitlines()
    assert len(table) == 3
    assert "commit_log_offset" in table[0]


def test_dump_of_a_queue_and_of_a_key(root):
    rows = objects(run("dump", root, "-o", "jsonl"))
    queue = objects(run("dump", root, "-o", "jsonl", "--queue", "flights:1"))
    assert queue == [r for r in rows if (r["topic"], r["queue_id"]) == ("flights", 1)]
    assert [r["queue_offset"] for r in queue] == list(range(len(queue)))
    key = objects(run("dump", root, "-o", "jsonl", "--key", "delays:N1"))
    assert key == [r for r in reversed(rows) if r["topic"] == "delays" and "N1" in r["keys"]]
    assert key
    (unique,) = objects(run("dump", root, "-o", "jsonl", "--key", "flights:U3-2"))
    assert unique["unique_id"] == "U3-2"
    assert objects(run("dump", root, "-o", "jsonl", "--queue", "nothing:0")) == []


@pytest.mark.parametrize(
    ("kind", "compress"),
    [
        (SystemFlag.COMPRESSION_LZ4, lz4.frame.compress),
        (SystemFlag.COMPRESSION_ZSTD, zstandard.ZstdCompressor().compress),
        (SystemFlag.COMPRESSION_ZLIB, zlib.compress),
        (0, zlib.compress),
    ],
)
def test_dump_speaks_of_the_body_as_it_was_given(tmp_path, kind, compress):
    body = b"all work and no play " * 30
    flag = int(SystemFlag.COMPRESSED | kind)
    with Store.open(tmp_path / "s", small_config()) as store:
        store.append(block_of("t", [compress(body)], system_flag=flag), 0)
        store.append(block_of("t", [b"no such thing"], system_flag=flag), 0)
    sound, broken = objects(run("dump", tmp_path / "s", "-o", "jsonl"))
    assert (sound["body_length"], sound["body_crc32"]) == (len(body), zlib.crc32(body))
    assert sound["stored_body_length"] == len(compress(body))
    assert (broken["body_length"], broken["body_crc32"]) == (None, None)


def test_verify_of_a_sound_store(root):
    result = run("verify", root, "-o", "json")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert (figures["records"], figures["topics"], figures["queues"]) == (60, 2, 3)
    assert (figures["damaged"], figures["findings"], figures["first_offset"]) == (0, 0, 0)
    rows = objects(run("dump", root, "-o", "jsonl"))
    assert figures["last_offset"] == rows[-1]["commit_log_offset"]
    assert figures["end_offset"] == rows[-1]["commit_log_offset"] + rows[-1]["size"]
    assert "records" in run("verify", root).stdout
    assert yaml.safe_load(run("verify", root, "-o", "yaml").stdout) == json.loads(result.stdout)


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("dump", "print the commit log"),
        ("verify", "check the commit log"),
        ("fsck", "check the commit log"),
        ("rebuild", "scan the commit log"),
    ],
)
def test_every_command_says_how_far_it_is(root, command, step):
    lines = run(command, root, "-o", "json").stderr.splitlines()
    assert all(line.startswith(f"{step}: ") and line.endswith(" %") for line in lines)
    percents = [int(line.split()[-2]) for line in lines]
    assert percents == sorted(set(percents))
    assert len(percents) >= 3


def test_looking_changes_nothing(root):
    before = snapshot(root)
    flip(root, 200)
    damaged = snapshot(root)
    for command in ("dump", "verify", "fsck"):
        run(command, root)
    run("dump", root, "--queue", "flights:0")
    assert snapshot(root) == damaged
    assert set(damaged) == set(before)


def test_damage_is_named_by_range_and_reason(root):
    rows = objects(run("dump", root, "-o", "jsonl"))
    flip(root, rows[4]["commit_log_offset"] + 100)
    result = run("fsck", root, "-o", "jsonl")
    assert result.exit_code == 1
    (finding,) = [row for row in objects(result) if row["where"] == "commit log"]
    begin = rows[4]["commit_log_offset"]
    assert (finding["begin"], finding["end"]) == (begin, begin + rows[4]["size"])
    assert finding["reason"] == "checksum differs"
    figures = json.loads(run("verify", root, "-o", "json").stdout)
    assert (figures["records"], figures["damaged"]) == (59, 1)
    dumped = run("dump", root, "-o", "jsonl")
    assert dumped.exit_code == 1
    assert objects(dumped) == rows[:4] + rows[5:]
    assert f"damage from {begin}" in dumped.stderr
    assert run("verify", root).exit_code == 1


def test_a_torn_tail_is_named_and_repaired(root):
    rows = objects(run("dump", root, "-o", "jsonl"))
    last = rows[-1]["commit_log_offset"]
    segment = root / "commitlog" / f"{last - last % 8192:020d}"
    content = bytearray(segment.read_bytes())
    content[last % 8192 + 90] ^= 1
    segment.write_bytes(content)
    (root / "checkpoint").unlink()
    (root / "abort").write_text("1")
    result = run("fsck", root, "-o", "json")
    tail = [row for row in json.loads(result.stdout) if row["where"] == "tail"]
    assert [(row["begin"], row["reason"]) for row in tail] == [(last, "checksum differs")]
    repaired = run("fsck", root, "--repair", "-o", "jsonl")
    assert repaired.exit_code == 0
    cut = [row for row in objects(repaired) if row["state"] == "cut"]
    assert [(row["where"], row["begin"]) for row in cut] == [("tail", last), ("consume queue", 20)]
    assert (cut[1]["topic"], cut[1]["end"]) == (rows[-1]["topic"], 21)
    again = run("fsck", root, "--repair").stdout
    assert again == "59 records, no problem found; nothing was changed\n"
    assert run("verify", root).exit_code == 0


def test_rebuild_makes_derived_files_again(root):
    sound = run("dump", root, "-o", "jsonl", "--queue", "flights:0").stdout
    for path in (root / "consumequeue").rglob("*"):
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))
    for path in (root / "index").iterdir():
        path.unlink()
    assert run("verify", root).exit_code == 1
    result = run("rebuild", root, "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["records"] == 60
    assert "scan the commit log: 50 %" in result.stderr or "%" in result.stderr
    assert run("verify", root).exit_code == 0
    assert run("dump", root, "-o", "jsonl", "--queue", "flights:0").stdout == sound


def test_sizes_of_a_store_of_another_program_are_read_off_its_files(root):
    for name in ("layout.json", "layout.json.sums", "checkpoint", "lock"):
        (root / name).unlink()
    assert json.loads(run("verify", root, "-o", "json").stdout)["records"] == 60
    (root / "consumequeue").rename(root / "gone")
    (root / "index").rename(root / "gone-too")
    assert json.loads(run("verify", root, "-o", "json").stdout)["records"] == 60


def test_an_open_store_is_left_alone(root):
    with Store.open(root, small_config()):
        for command in ("dump", "verify", "fsck", "rebuild"):
            result = run(command, root)
            assert result.exit_code == 2
            assert "another process has this store open" in result.stderr
            assert len(result.stderr.splitlines()) == 1


def test_what_is_no_store_is_refused_in_one_line(tmp_path):
    result = run("verify", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"ariane store: {tmp_path}: no store: there is no folder commitlog in it"
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--queue", "flights"),
        ("--queue", "flights:x"),
        ("--key", "flights"),
        ("--queue", "flights:0", "--key", "flights:N1"),
        ("-o", "xml"),
        ("--max-count", "0"),
    ],
)
def test_wrong_arguments_are_named(root, arguments):
    result = run("dump", root, *arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_findings_of_derived_files(root):
    queue = root / "consumequeue" / "flights" / "0" / f"{0:020d}"
    content = bytearray(queue.read_bytes())
    content[20 * 3 + 7] ^= 1
    queue.write_bytes(content)
    (index,) = sorted((root / "index").iterdir())[:1]
    items = bytearray(index.read_bytes())
    items[40 + 16 * 4 + 20 + 4 + 7] ^= 1
    index.write_bytes(items)
    rows = objects(run("fsck", root, "-o", "jsonl"))
    assert [(r["where"], r["begin"]) for r in rows] == [("consume queue", 3), ("index", 1)]
    assert rows[0]["topic"] == "flights"


def change_queue(root, topic, queue_id, change):
    """Rewrite entries of the first file of a queue, as damage would."""
    path = root / "consumequeue" / topic / str(queue_id) / f"{0:020d}"
    entries = np.frombuffer(path.read_bytes(), ENTRY).copy()
    change(entries)
    path.write_bytes(entries.tobytes())


def queue_findings(root):
    return [
        (row["reason"], row["begin"], row["end"])
        for row in objects(run("fsck", root, "-o", "jsonl"))
        if (row["where"], row["topic"], row["queue_id"]) == ("consume queue", "flights", 0)
    ]


def test_every_flipped_bit_of_an_entry_is_a_finding(tmp_path):
    with Store.open(tmp_path / "s", small_config()) as store:
        store.append(block_of("flights", [b"x"] * 6, tags=["arrived"] * 6), 0)
    for bit in (7, 71, *range(0, 160, 5)):

        def flip_bit(entries, bit=bit):
            entries.view(np.uint8)[3 * ENTRY_BYTES + bit // 8] ^= 1 << bit % 8

        change_queue(tmp_path / "s", "flights", 0, flip_bit)
        (finding,) = queue_findings(tmp_path / "s")
        # An impossible place or size is no entry at all: a queue ends where its entries end.
        assert finding[1:] == (3, 4) or finding == ("entries missing", 3, 6), bit
        assert ("tag code" in finding[0]) == (bit >= 96), bit
        change_queue(tmp_path / "s", "flights", 0, flip_bit)
    assert queue_findings(tmp_path / "s") == []


def test_findings_of_a_queue_are_ranges_with_reasons_and_rebuild_mends_them(root):
    sound = run("dump", root, "-o", "jsonl", "--queue", "flights:0").stdout
    assert queue_findings(root) == []

    def damage(entries):
        entries["tags_code"][1:4] ^= 1
        entries["commit_log_offset"][4] += 7
        entries["size"][5] += 1
        entries[6] = holes(1)[0]

    change_queue(root, "flights", 0, damage)
    assert sorted(queue_findings(root)) == [
        ("hole in the place of a record", 6, 7),
        ("leads to another place", 4, 5),
        ("size differs from the record", 5, 6),
        ("tag code differs from the record", 1, 4),
    ]
    assert run("rebuild", root).exit_code == 0
    assert queue_findings(root) == []
    assert run("dump", root, "-o", "jsonl", "--queue", "flights:0").stdout == sound


def test_a_gap_in_the_log_hides_no_damage_of_the_queue(root):
    rows = [
        row
        for row in objects(run("dump", root, "-o", "jsonl"))
        if (row["topic"], row["queue_id"]) == ("flights", 0)
    ]
    flip(root, rows[2]["commit_log_offset"] + 100)
    change_queue(root, "flights", 0, lambda entries: entries["tags_code"].__setitem__(5, 1))
    findings = objects(run("fsck", root, "-o", "jsonl"))
    places = {(row["where"], row["reason"], row["begin"], row["end"]) for row in findings}
    assert ("queue offsets", "queue offsets missing", 2, 3) in places
    assert ("consume queue", "tag code differs from the record", 5, 6) in places


def test_tag_codes_of_delayed_messages_are_times_of_delivery(tmp_path):
    encoder = BlockEncoder("SCHEDULE_TOPIC_XXXX", size_bytes_max=1 << 16)
    encoder.add(b"x", tag="arrived", properties={"DELAY": "3"}, born_timestamp_ms=1)
    with Store.open(tmp_path / "s", small_config()) as store:
        store.append(encoder.finish(), 2)
    assert json.loads(run("verify", tmp_path / "s", "-o", "json").stdout)["findings"] == 0


def test_entries_of_the_timer_topic_may_have_hashes_of_tags_as_java_brokers_write_them(tmp_path):
    root = tmp_path / "s"
    due = {"TIMER_OUT_MS": "1796109600000"}
    encoder = BlockEncoder("rmq_sys_wheel_timer", size_bytes_max=1 << 16)
    for tag in ("arrived", "", "late"):
        encoder.add(b"x", tag=tag, properties=due, born_timestamp_ms=1)
    with Store.open(root, small_config()) as store:
        store.append(encoder.finish(), 0)
    hashes = [java_string_hash("arrived"), 0, java_string_hash("late")]
    change_queue(
        root, "rmq_sys_wheel_timer", 0, lambda e: e["tags_code"].__setitem__(slice(3), hashes)
    )
    assert objects(run("fsck", root, "-o", "jsonl")) == []
    assert json.loads(run("verify", root, "-o", "json").stdout)["findings"] == 0
    change_queue(root, "rmq_sys_wheel_timer", 0, lambda e: e["tags_code"].__setitem__(1, 7))
    [finding] = objects(run("fsck", root, "-o", "jsonl"))
    assert (finding["reason"], finding["begin"]) == ("tag code differs from the record", 1)


def test_an_index_that_is_gone_is_said_where_a_key_is_looked_for(root):
    whole = run("dump", root, "--key", "flights:key-3", "-o", "jsonl")
    assert (whole.exit_code, whole.stderr) == (0, "")
    for path in (root / "index").iterdir():
        path.unlink()
    gone = run("dump", root, "--key", "flights:key-3", "-o", "jsonl")
    assert gone.exit_code == 1
    assert "the index is not whole: it has no files" in gone.stderr
    assert "ariane store rebuild" in gone.stderr


def test_a_queue_that_the_log_knows_nothing_of_is_a_finding(root):
    (root / "consumequeue" / "ghost").mkdir()
    (root / "consumequeue" / "flights" / "0").rename(root / "consumequeue" / "ghost" / "0")
    findings = objects(run("fsck", root, "-o", "jsonl"))
    assert {(row["reason"], row["topic"], row["begin"], row["end"]) for row in findings} == {
        ("entries missing", "flights", 0, 21),
        ("leads to no record", "ghost", 0, 21),
    }


def test_hosts_are_written_as_they_are_given(tmp_path):
    config = replace(small_config(), store_host=("::1", 10911))
    with Store.open(tmp_path / "s", config) as store:
        store.append(block_of("flights", [b"x"]), 0, born_host=("192.0.2.7", 4711))
    (row,) = (
        json.loads(line)
        for line in run("dump", tmp_path / "s", "-o", "jsonl").output.splitlines()
        if line.startswith("{")
    )
    assert (row["born_host"], row["store_host"]) == ("192.0.2.7:4711", "[::1]:10911")


@pytest.mark.parametrize("command", ["dump", "verify", "fsck", "rebuild"])
def test_an_error_of_the_system_is_said_in_words_and_with_what_to_do(tmp_path, command):
    (tmp_path / "commitlog" / f"{0:020d}").mkdir(parents=True)
    result = run(command, tmp_path)
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert "Errno" not in line
    assert line == (
        f"ariane store: {tmp_path}/commitlog/{0:020d}: Is a directory;"
        " the store needs a file there: move the folder away"
    )


def test_an_error_of_the_disk_says_what_to_do(root, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error", f"{root}/commitlog")

    monkeypatch.setattr("ariane_storage.commands.verify.inspect", fail)
    [line] = run("verify", root).stderr.splitlines()
    assert "commitlog: Input/output error; the disk is failing: copy the folder" in line
