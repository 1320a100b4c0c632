import json
from dataclasses import asdict, replace

import pytest
from peer_bench.errors import ResultIllegal
from peer_bench.results import FIELDS, Row, keep_rows, keep_runs, read_rows, table_of

ROW = Row(
    work="batches", ours=200.0, unit="msg/s", against="Queue 1.2.3", theirs=100.0, ratio=2.0,
    ratio_min=1.9, ratio_max=2.1, pairs=5, floor=1.0, goal=None, lost=0,
    when="2026-01-01T00:00:00Z", machine={"cores": "2"}, versions={"queue": "1.2.3"},
)  # fmt: skip


def test_the_file_is_a_list_of_objects_with_the_agreed_fields(tmp_path):
    path = tmp_path / "latest.json"
    keep_rows([ROW], path)
    assert json.loads(path.read_text()) == [asdict(ROW)]
    assert FIELDS == (
        "work", "ours", "unit", "against", "theirs", "ratio", "ratio_min", "ratio_max", "pairs",
        "floor", "goal", "lost", "when", "machine", "versions",
    )  # fmt: skip
    assert read_rows(path) == [ROW]


def test_a_row_takes_the_place_of_the_one_of_the_same_work_and_peer(tmp_path):
    path = tmp_path / "latest.json"
    other = replace(ROW, work="singles")
    keep_rows([ROW, other], path)
    newer = replace(ROW, against="Queue 1.3", ratio=2.05)
    third = replace(ROW, against="Another 1")
    assert keep_rows([newer, third], path) == [newer, other, third] == read_rows(path)


@pytest.mark.parametrize(
    "wrong",
    [{"ratio": 3.0}, {"theirs": 0.0}, {"ours": float("nan")}, {"pairs": 0}, {"lost": -1}],
)
def test_figures_that_cannot_be_are_refused(tmp_path, wrong):
    with pytest.raises(ResultIllegal):
        keep_rows([replace(ROW, **wrong)], tmp_path / "latest.json")
    assert not (tmp_path / "latest.json").exists()


def test_a_file_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "latest.json"
    path.write_text(json.dumps([{"work": "batches"}]))
    with pytest.raises(ResultIllegal, match="fields are work, ours"):
        read_rows(path)


def test_runs_are_kept_by_peer_and_work(tmp_path):
    path = tmp_path / "runs.json"
    old, new = {"work": "w", "cores": 1}, {"work": "w", "cores": 2}
    other = {"work": "x", "cores": 1}
    keep_runs({"a": {"skipped": "no word"}, "b": {"sides": [old, other]}}, path)
    keep_runs({"a": {"sides": [old]}, "b": {"sides": [new]}}, path)
    kept = {"a": {"sides": [old]}, "b": {"sides": [other, new]}}
    assert json.loads(path.read_text()) == kept
    keep_runs({"b": {"skipped": "no time"}}, path)
    assert json.loads(path.read_text()) == kept


def test_failures_stay_until_their_work_is_done(tmp_path):
    path = tmp_path / "runs.json"
    side = {"work": "w", "cores": 1}
    keep_runs({"a": {"sides": [side], "took_s": {"k": {"5": 9.0}}}}, path)
    keep_runs({"a": {"failed": {"k": "no disk", "j": "no word"}}}, path)
    kept = json.loads(path.read_text())["a"]
    assert (kept["sides"], set(kept["failed"])) == ([side], {"k", "j"})
    keep_runs({"a": {"sides": [side], "took_s": {"k": {"2": 1.0}}}}, path)
    kept = json.loads(path.read_text())["a"]
    assert kept["failed"] == {"j": "no word"}


def test_tables_show_targets_where_there_are_any():
    line = table_of([ROW]).splitlines()[1]
    assert "1.9-2.1" in line
    assert line.endswith("Queue 1.2.3")
