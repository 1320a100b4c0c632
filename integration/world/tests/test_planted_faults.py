"""Each fault that can be planted stands where the house has changed nothing since."""

import ast
import json
from pathlib import Path

import pytest
from played_world.planted import planted_runs
from played_world.planted.planted_faults import MENDS, MISTAKES, PLANTED
from played_world.planted.planting import planted_source

ROOT = Path(__file__).parents[3]


def test_every_fault_can_be_planted():
    assert len(PLANTED) == len(MENDS) + len(MISTAKES)
    for planted in PLANTED.values():
        source = (ROOT / planted.path).read_text()
        assert ast.dump(ast.parse(planted_source(planted, source))) != ast.dump(ast.parse(source))


@pytest.mark.parametrize(("outcome", "missed"), [("ok", 0), ("anomaly", 1)])
def test_what_a_seed_finds_without_the_fault_too_shows_nothing_of_it(
    monkeypatch, tmp_path, capsys, outcome, missed
):
    monkeypatch.setattr(planted_runs, "LEDGER", tmp_path / "planted.jsonl")
    asked = []

    def rows(_name, options, more):
        asked.append((*options, *more))
        is_planted = "--plant" in more
        return [{"seed": 7, "outcome": "anomaly" if is_planted else outcome, "words": ["lost: 1"]}]

    monkeypatch.setattr(planted_runs, "_rows", rows)
    assert planted_runs.play_planted(["no-flush"], ["--scale", "0.3"], 10.0) == missed
    assert asked[1] == ("--scale", "0.3", "--seeds", "7"), "the same seed, without the fault"
    assert "seed 7: lost: 1" in capsys.readouterr().out
    assert json.loads(planted_runs.LEDGER.read_text())["is_shown"] is not bool(missed)
