import json
import subprocess
from contextlib import contextmanager

import pytest
from peer_bench import command, results
from peer_bench.command import Session
from peer_bench.errors import PeerUnavailable
from peer_bench.peers import Part, Peer
from peer_bench.plan import bouts_of
from peer_bench.results import Row
from peer_bench.run import WHOLE
from peer_bench.workloads import WORKLOADS

ROW = Row(
    work="", ours=200.0, unit="msg/s", against="Queue 1.2.3", theirs=100.0, ratio=2.0,
    ratio_min=1.9, ratio_max=2.1, pairs=5, floor=1.0, goal=None, lost=0,
    when="2026-01-01T00:00:00Z", machine={"cores": "2"}, versions={"queue": "1.2.3"},
)  # fmt: skip
KEYS = [workload.key for workload in WORKLOADS][:3]


@contextmanager
def never(_path):
    raise AssertionError("it is not run here")
    yield


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Result files of their own; returns what is in them now."""
    paths = tmp_path / "latest.json", tmp_path / "peers.json"
    monkeypatch.setattr(command, "keep_rows", lambda rows: results.keep_rows(rows, paths[0]))
    monkeypatch.setattr(command, "keep_runs", lambda runs: results.keep_runs(runs, paths[1]))
    monkeypatch.setattr(command, "read_runs", lambda: results.read_runs(paths[1]))
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(command.subprocess, "run", lambda *_, **__: done)
    return lambda: (
        [row.work for row in results.read_rows(paths[0])],
        json.loads(paths[1].read_text()),
    )


def run(monkeypatch, outcomes, **session):
    """Run peers at three works each; a work's outcome is raised, or its row is there."""
    asked = []

    def run_bout(bout, extent):
        asked.append((*bout.key, extent.leg_s))
        outcome = outcomes.get(bout.key)
        if outcome is not None:
            raise outcome
        work = f"{bout.peer.key} {bout.workload.key}"
        row = Row(**{**{name: getattr(ROW, name) for name in results.FIELDS}, "work": work})
        return [row], {"sides": [{"work": work}], "contenders": {}}

    monkeypatch.setattr(command, "run_bout", run_bout)
    peers = [Peer(key, never, dict.fromkeys(KEYS, Part())) for key in ("a", "b")]
    ran = Session(WHOLE, **{"quick": False, "dry": False, **session})
    ran.run(bouts_of(peers))
    return ran, asked


def test_a_failure_costs_only_its_work(monkeypatch, kept):
    ran, _ = run(monkeypatch, {("a", KEYS[1]): OSError("no disk")})
    works, runs = kept()
    assert works == [
        f"{peer} {key}" for peer in "ab" for key in KEYS if (peer, key) != ("a", KEYS[1])
    ]
    assert runs["a"]["failed"] == {KEYS[1]: "no disk"}
    assert ran.status == 1


def test_an_unavailable_peer_is_not_tried_again(monkeypatch, kept):
    ran, asked = run(monkeypatch, {("a", KEYS[0]): PeerUnavailable("no Java")})
    assert [peer for peer, *_ in asked] == ["a", "b", "b", "b"]
    assert kept()[1]["a"]["skipped"] == "no Java"
    assert ran.status == 0


def test_an_interrupted_run_keeps_its_measurements(monkeypatch, kept):
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, {("a", KEYS[2]): KeyboardInterrupt()})
    assert kept()[0] == [f"a {KEYS[0]}", f"a {KEYS[1]}"]


def test_every_failure_of_a_peer_is_kept(monkeypatch, kept):
    words = {("a", KEYS[0]): OSError("no disk"), ("a", KEYS[2]): OSError("no word")}
    run(monkeypatch, words)
    assert kept()[1]["a"]["failed"] == {KEYS[0]: "no disk", KEYS[2]: "no word"}


def test_each_side_says_whether_there_was_little_time(monkeypatch, kept):
    run(monkeypatch, {}, quick=True)
    run(monkeypatch, {("a", KEYS[1]): OSError("no disk")})
    assert [side["quick"] for side in kept()[1]["a"]["sides"]] == [True, False, False]


def test_skipped_peers_and_failures_are_reported_at_the_end(monkeypatch, kept):
    word = "no Java:\n  no program\n"
    outcomes = {("a", KEYS[0]): PeerUnavailable(word), ("b", KEYS[1]): OSError("no disk")}
    ran, _ = run(monkeypatch, outcomes)
    assert ran.omitted == ["a: skipped: no Java: no program", f"b, {KEYS[1]}: failed: no disk"]


def test_a_page_that_cannot_be_written_costs_no_figures(monkeypatch, kept, capsys):
    failed = subprocess.CompletedProcess([], 1, "", "Traceback:\nKeyError: 'goal'\n")
    monkeypatch.setattr(command.subprocess, "run", lambda *_, **__: failed)
    ran, _ = run(monkeypatch, {})
    assert len(kept()[0]) == 2 * len(KEYS)
    assert ran.status == 1
    assert "the page was not written: KeyError: 'goal'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--only", "kafkaa"], "argument --only: kafkaa is no peer and no work"),
        (["--only", "kafka", "--only", "transactions"], "kafka, transactions: no such peer does"),
        (["--quick", "--only", "aiokafka"], "aiokafka: none of it is part of a quick run"),
        (["--pairs", "0"], "argument --pairs: 0 is not at least 1"),
        (["--pairs", "many"], "argument --pairs: many is not at least 1"),
    ],
)
def test_an_impossible_run_is_refused_in_one_line_before_it_begins(arguments, word, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert f"error: {word}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("kept_before", ["[{}]", "[{", '{"a": []}'])
def test_results_that_cannot_be_read_are_told_before_anything_begins(
    tmp_path, monkeypatch, capsys, kept_before
):
    path = tmp_path / "latest.json"
    path.write_text(kept_before)
    monkeypatch.setattr(command, "ROWS_PATH", path)
    monkeypatch.setattr(command, "_check_room", lambda: None)
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "nats"])
    assert ended.value.code == 2
    assert str(path) in capsys.readouterr().err.splitlines()[-1]


def test_a_disk_without_room_is_told_before_anything_begins(monkeypatch, capsys):
    monkeypatch.setattr(command, "FREE_BYTES_MIN", 1 << 62)
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "nats"])
    assert ended.value.code == 2
    assert "GiB are free in" in capsys.readouterr().err.splitlines()[-1]


def test_legs_are_shorter_where_time_is_short(monkeypatch, kept):
    _, asked = run(monkeypatch, {})
    assert {leg_s for *_, leg_s in asked} == {WHOLE.leg_s}
    monkeypatch.setattr(command, "WHOLE_S_MAX", 1.0)
    _, asked = run(monkeypatch, {})
    assert {leg_s for *_, leg_s in asked} == {WHOLE.leg_s * command.LEG_SHARE_MIN}


def test_a_quick_run_ends_in_time(monkeypatch, kept):
    monkeypatch.setattr(command, "QUICK_S_MAX", 0.0)
    _, asked = run(monkeypatch, {}, quick=True)
    assert asked == []
    assert kept()[1]["b"]["skipped"] == "no time was left in a quick run"
