"""``ariane store fsck --repair``: it says what it did, what is lost, and what is left."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ariane_storage import Store
from ariane_storage.commands import store as store_group
from ariane_storage.offline.repair import repair
from ariane_storage.testing import FaultyDisk, PowerLost, block_of, small_config

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]
SEGMENT = 8192


@pytest.fixture
def root(tmp_path, fill):
    """A closed store of 90 records in three queues, several segments, queue and index files."""
    with Store.open(tmp_path / "store", small_config()) as store:
        fill(store, blocks=30)
    return tmp_path / "store"


def run(*arguments):
    return CliRunner().invoke(store_group, [str(argument) for argument in arguments])


def rows_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def log(root):
    return rows_of(run("dump", root, "-o", "jsonl"))


def figures(root):
    result = run("verify", root, "-o", "json")
    return json.loads(result.stdout) | {"status": result.exit_code}


def patch(path, position, content):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def place(root, record):
    """File and position of a record."""
    start = record["commit_log_offset"] // SEGMENT * SEGMENT
    return root / "commitlog" / f"{start:020d}", record["commit_log_offset"] - start


def bodies(root):
    with Store.open(root, small_config()) as store:
        return {
            queue: store.read_queue(*queue, 0, max_count=99, max_bytes=1 << 20).sizes.tolist()
            for queue in store.queues()
        }


DAMAGE = {
    "body": (lambda record: record["size"] - 200, b"?", "checksum differs"),
    "flag of the header": (lambda record: 19, b"?", "checksum differs"),
    "queue offset": (lambda record: 27, b"?", "checksum differs"),
    "position": (lambda record: 35, b"?", "a record of another place"),
    "size": (lambda record: 0, b"\0\1\0\0", "impossible size"),
    "magic": (lambda record: 4, b"OUCH", "unknown magic code"),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
@pytest.mark.parametrize("which", [10, -1])
def test_a_damaged_record_is_named_quarantined_and_counted_as_lost(root, kind, which):
    position, content, reason = DAMAGE[kind]
    record = log(root)[which]
    path, start = place(root, record)
    patch(path, start + position(record), content)
    begin, end = record["commit_log_offset"], record["commit_log_offset"] + record["size"]

    found = rows_of(run("fsck", root, "-o", "jsonl"))
    (damage,) = (row for row in found if row["where"] == "commit log")
    assert (damage["reason"], damage["begin"], damage["end"]) == (reason, begin, end)
    assert (damage["path"], damage["position"]) == (f"commitlog/{path.name}", start)
    assert damage["state"] == "open"
    (lost,) = (row for row in found if row["state"] == "lost")
    assert (lost["topic"], lost["queue_id"]) == (record["topic"], record["queue_id"])
    assert (lost["begin"], lost["end"]) == (record["queue_offset"], record["queue_offset"] + 1)
    assert (figures(root)["to_repair"], figures(root)["quarantined"]) == (2, 0)

    result = run("fsck", root, "--repair", "-o", "jsonl")
    assert result.exit_code == 1
    states = {(row["where"], row["state"]) for row in rows_of(result)}
    assert states == {
        ("commit log", "quarantined"),
        ("queue offsets", "lost"),
        ("index", "built again"),
        ("file", "done"),
    }
    written = {row["path"] for row in rows_of(result) if row["where"] == "file"}
    assert {"checkpoint", "quarantine.json", "consumequeue", "index"} <= written
    after = figures(root)
    assert (after["records"], after["quarantined"], after["lost_messages"]) == (89, 1, 1)
    assert (after["findings"], after["to_repair"], after["status"]) == (2, 0, 1)

    again = run("fsck", root, "--repair")
    assert again.exit_code == 1
    assert again.stdout.endswith(
        "89 records, nothing is left to repair, 1 range quarantined, 1 message lost for good; "
        "nothing was changed\n"
    )
    assert sum(map(len, bodies(root).values())) == 89


def test_the_table_has_the_same_facts_as_json(root):
    record = log(root)[10]
    path, start = place(root, record)
    patch(path, start + 100, b"?")
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    table = run("fsck", root, "--repair").stdout.splitlines()
    rows = rows_of(run("fsck", copy, "--repair", "-o", "jsonl"))
    assert len(table) == 1 + len(rows) + 1
    for line, row in zip(table[1:], rows, strict=False):
        for value in row.values():
            assert str(value) in line
    assert table[-1] == (
        "89 records, nothing is left to repair, 1 range quarantined, 1 message lost for good"
    )


def test_a_page_of_zeros_names_every_queue_that_has_lost_messages(root):
    record = log(root)[10]
    path, start = place(root, record)
    patch(path, start - 50, bytes(2000))
    lost = {
        (row["topic"], row["queue_id"], row["begin"], row["end"])
        for row in rows_of(run("fsck", root, "--repair", "-o", "jsonl"))
        if row["state"] == "lost"
    }
    kept = {(r["topic"], r["queue_id"], r["queue_offset"]) for r in log(root)}
    said = {(t, q, offset) for t, q, begin, end in lost for offset in range(begin, end)}
    every = {(t, q, offset) for t, q in QUEUES for offset in range(30)}
    assert said == every - kept
    assert len({(topic, queue_id) for topic, queue_id, _, _ in lost}) > 1
    assert figures(root)["lost_messages"] == len(said)


@pytest.mark.parametrize("how", ["shorter", "empty", "removed"])
def test_a_last_segment_that_is_cut_off_is_accounted_for(root, how):
    before = log(root)
    path, start = place(root, before[-1])
    if how == "removed":
        path.unlink()
    else:
        os.truncate(path, start if how == "shorter" else 0)
    rows = rows_of(run("fsck", root, "--repair", "-o", "jsonl"))
    (damage,) = (row for row in rows if row["where"] == "commit log")
    assert damage["state"] == "quarantined"
    lost = sum(row["end"] - row["begin"] for row in rows if row["state"] == "lost")
    assert lost == len(before) - len(log(root)) > 0
    with Store.open(root, small_config()) as store:
        assert [store.queue_bounds(*queue) for queue in QUEUES] == [(0, 30)] * 3


def test_a_first_segment_that_is_gone_is_told_once_and_lost(root):
    before = log(root)
    (root / "commitlog" / f"{0:020d}").unlink()
    assert figures(root)["damaged"] == 1
    result = run("fsck", root, "--repair", "-o", "jsonl")
    assert result.exit_code == 1
    lost = [row for row in rows_of(result) if row["state"] == "lost"]
    assert (lost[0]["where"], lost[0]["begin"], lost[0]["end"]) == ("commit log", 0, SEGMENT)
    messages = sum(row["end"] - row["begin"] for row in lost[1:])
    assert messages == len(before) - len(log(root)) > 0
    assert figures(root)["status"] == 0


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


DERIVED = {
    "first file of a queue": lambda root: remove(root / f"consumequeue/flights/0/{0:020d}"),
    "file within a queue": lambda root: remove(root / f"consumequeue/flights/0/{160:020d}"),
    "queue": lambda root: remove(root / "consumequeue" / "flights" / "1"),
    "all queues": lambda root: remove(root / "consumequeue"),
    "entries": lambda root: patch(root / f"consumequeue/flights/0/{0:020d}", 47, b"\x77" * 30),
    "shorter queue": lambda root: os.truncate(root / f"consumequeue/flights/0/{0:020d}", 50),
    "index file": lambda root: remove(min((root / "index").iterdir())),
    "shorter index": lambda root: os.truncate(min((root / "index").iterdir()), 100),
    "index of noise": lambda root: patch(min((root / "index").iterdir()), 0, bytes(range(256)) * 3),
    "slots": lambda root: patch(min((root / "index").iterdir()), 40, bytes(64)),
    "hash": lambda root: patch(min((root / "index").iterdir()), 40 + 64 + 60, b"\x11\x22\x33\x44"),
    "checkpoint": lambda root: patch(root / "checkpoint", 0, bytes(range(256)) * 16),
    "empty checkpoint": lambda root: os.truncate(root / "checkpoint", 0),
    "quarantine": lambda root: (root / "quarantine.json").write_text("{"),
}


@pytest.mark.parametrize("kind", list(DERIVED))
def test_what_is_derived_is_found_wrong_and_built_again(root, kind):
    sound, entries = log(root), bodies(root)
    DERIVED[kind](root)
    found = run("fsck", root, "-o", "jsonl")
    assert found.exit_code == 1
    assert {row["state"] for row in rows_of(found)} == {"open"}
    assert all(row["path"] for row in rows_of(found))
    result = run("fsck", root, "--repair", "-o", "jsonl")
    assert result.exit_code == 0
    assert {row["state"] for row in rows_of(result)} == {"built again", "done"}
    assert (figures(root)["findings"], figures(root)["status"]) == (0, 0)
    assert (log(root), bodies(root)) == (sound, entries)


STATE = ["deleted-topics.json", "idle-queues.json", "config/topics.json"]


@pytest.mark.parametrize("name", STATE)
@pytest.mark.parametrize("how", ["noise", "folder"])
def test_state_that_only_an_operator_can_restore_is_said_to_be_so(root, name, how):
    path = root / name
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink()
    if how == "noise":
        path.write_text("{")
    else:
        path.mkdir()
    (row,) = rows_of(run("fsck", root, "--repair", "-o", "jsonl"))
    assert (row["path"], row["state"]) == (name, "by hand")
    assert "restore" in row["reason"]
    assert (figures(root)["by_hand"], figures(root)["to_repair"]) == (1, 0)


def test_a_previous_generation_in_use_is_a_finding(root):
    (root / "config" / "topics.json.bak").write_text("{}")
    (row,) = rows_of(run("fsck", root, "-o", "jsonl"))
    assert row["reason"] == "damaged or missing: the generation before it is used"


def test_a_repair_that_is_refused_says_what_it_found_and_changes_nothing(root):
    patch(*place(root, log(root)[10]), b"OUCH")
    (root / "deleted-topics.json").write_text("{")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    result = run("fsck", root, "--repair", "-o", "jsonl")
    assert result.exit_code == 2
    assert {row["state"] for row in rows_of(result)} == {"open", "by hand", "lost"}
    assert result.stderr.splitlines()[-1].startswith("ariane store: not repaired: ")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_checkpoint_of_another_program_is_no_damage(root):
    patch(root / "checkpoint", 0, bytes(range(24)))
    assert figures(root)["status"] == 0
    for path in root.glob("layout.json*"):
        path.unlink()
    (root / "checkpoint").write_bytes(bytes(range(24)) + bytes(4072))
    found = rows_of(run("fsck", root, "-o", "jsonl"))
    assert "checkpoint" not in {row["where"] for row in found}


def test_sizes_are_not_guessed(root):
    for path in root.glob("layout.json*"):
        path.unlink()
    os.truncate(min((root / "index").iterdir()), 900)
    found = rows_of(run("fsck", root, "-o", "jsonl"))
    assert [row["state"] for row in found if row["where"] == "layout"] == ["by hand"]
    for command in (["fsck", root, "--repair"], ["rebuild", root]):
        result = run(*command)
        assert result.exit_code == 2
        assert "layout.json: is missing, and how many slots" in result.stderr
    assert not (root / "layout.json").exists()


def test_records_behind_a_hole_of_power_loss_go_by_name(root):
    """What was never flushed is cut at the first hole, and so are whole records behind it."""
    records = log(root)
    with Store.open(root, small_config()) as store:
        store.append(block_of("delays", [b"1" * 600, b"2" * 600, b"3" * 600]), 0)
        store.append(block_of("flights", [b"4"]), 1)
    last = log(root)[len(records) :]
    # The checkpoint of before these appends, and a mark of a run that has not ended.
    with Store.open(root, small_config()) as store:
        checkpoint = store.keeping._checkpoint_file.load()
        end = last[0]["commit_log_offset"]
        assert checkpoint is not None
        store.keeping._checkpoint_file.save(
            replace(checkpoint, dispatched_offset=end, flushed_offset=end)
        )
        store.keeping._checkpoint_file.mark(end)
        kept = (root / "checkpoint").read_bytes()
    (root / "checkpoint").write_bytes(kept)
    (root / "abort").write_text("1")
    path, start = place(root, last[1])
    patch(path, start, bytes(last[1]["size"]))
    rows = rows_of(run("fsck", root, "--repair", "-o", "jsonl"))
    cut = [row for row in rows if row["state"] == "cut"]
    assert ("commit log", "2 whole records behind a hole") in {
        (row["where"], row["reason"]) for row in cut
    }
    messages = {
        (row["topic"], row["queue_id"], row["begin"], row["end"])
        for row in cut
        if row["where"] == "queue offsets"
    }
    assert messages == {("delays", 0, 31, 33), ("flights", 1, 30, 31)}
    assert len(log(root)) == len(records) + 1


def test_a_repair_may_be_interrupted_anywhere(bench, fill):
    """Power lost at any step of a repair: the next one comes to the same."""
    store = bench.open()
    fill(store, blocks=12)
    damaged = store.append(block_of("delays", [b"x" * 300]), 0).first_commit_log_offset
    store.append(block_of("delays", [b"y"]), 0)
    store.close()
    content = bytearray(bench.disk.read(bench.segment_path(damaged // SEGMENT * SEGMENT)))
    content[damaged % SEGMENT + 100] ^= 1
    bench.disk.write(bench.segment_path(damaged // SEGMENT * SEGMENT), bytes(content))
    files = {
        path: bench.disk.read(path) for path in bench.disk.paths() if not bench.disk.is_folder(path)
    }

    def fresh() -> FaultyDisk:
        disk = FaultyDisk()
        for path, kept in files.items():
            disk.make_folders(path.parent)
            disk.write(path, kept)
            disk.sync(folders=[path.parent])
        return disk

    step = 0
    while True:
        step += 7
        disk = fresh()
        disk.power_fails_at = disk.steps + step
        try:
            repair(bench.root, disk)
            break
        except PowerLost:
            done = repair(bench.root, disk.lose_power(step))
            assert done.refusal is None
            assert {finding.state for finding in done.after.findings} <= {"quarantined", "lost"}
            assert [f.begin for f in done.after.damaged] == [damaged], step
    assert step > 20
