"""Slow tests are found, take turns, are judged, and are not forgotten."""

from __future__ import annotations

import pytest

from tools import slow
from tools.slow import Outcome

KNOWN = ["a/test_a.py", "a/test_b.py", "b/test_c.py"]


def played(count, outcome="passed", seconds=10):
    return Outcome("0123456789", count, outcome, seconds)


def test_groups_are_the_files_with_slow_tests(tmp_path):
    texts = {
        "a/test_quick.py": "def test_a(): pass\n",
        "a/test_slow.py": "@pytest.mark.slow\ndef test_a(): pass\n",
        "a/slow.py": "pytest.mark.slow\n",
    }
    (tmp_path / "a").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert slow.groups(texts, tmp_path) == ["a/test_slow.py"]


def test_outcomes_are_read_as_they_were_written(tmp_path):
    outcomes = {"b/test_c.py": played(7, "failed"), "a/test_a.py": played(5, seconds=120)}
    slow.write(tmp_path / "outcomes", outcomes)
    assert slow.read(tmp_path / "outcomes") == outcomes


def test_each_commit_has_its_group_and_long_ones_wait_for_time():
    assert [slow.choose(KNOWN, {}, count, 60) for count in range(5)] == [*KNOWN, *KNOWN[:2]]
    outcomes = {KNOWN[0]: played(1, seconds=100), KNOWN[1]: played(1, seconds=61)}
    assert slow.choose(KNOWN, outcomes, 0, 60) == KNOWN[2]
    assert slow.choose(KNOWN, outcomes, 1, 62) == KNOWN[1]
    assert slow.choose(KNOWN, outcomes, 3, 101) == KNOWN[0]
    assert slow.choose(KNOWN[:2], outcomes, 0, 60) is None
    assert slow.choose([], {}, 0, 60) is None


def test_what_was_played_longest_ago_comes_first():
    outcomes = {KNOWN[0]: played(9), KNOWN[1]: played(8)}
    assert slow.longest_ago(KNOWN, outcomes) == [KNOWN[2], KNOWN[1], KNOWN[0]]


def test_what_nobody_plays_is_told():
    fresh = dict.fromkeys(KNOWN, played(1000))
    assert slow.notices(KNOWN, fresh, 1000 + slow.AGE_MAX) == []
    assert slow.notices(KNOWN, fresh | {KNOWN[1]: played(900, "skipped")}, 1200) == []
    [told] = slow.notices(KNOWN, fresh | {KNOWN[1]: played(899)}, 1200)
    assert told.startswith("slow tests that were not played")
    assert told.endswith(KNOWN[1])
    [told] = slow.notices(KNOWN, {KNOWN[0]: played(1200)}, 1200)
    assert told.endswith(f"{KNOWN[1]}, {KNOWN[2]}")
    [told] = slow.notices(KNOWN, fresh | {KNOWN[2]: played(1000, "failed")}, 1000)
    assert "did not pass" in told
    [told] = slow.notices([f"test_{number:02}.py" for number in range(20)], {}, 1)
    assert told.endswith("test_04.py and 15 more")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("assert True", "passed"),
        ("assert False", "failed"),
        ("pytest.skip('none here')", "skipped"),
        ("time.sleep(600)", "late"),
    ],
)
def test_a_group_is_judged(tmp_path, capfd, body, outcome):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "test_it.py").write_text(
        "import time, pytest\ndef test_quick(): assert False\n"
        f"@pytest.mark.slow\ndef test_it(): {body}\n"
    )
    seconds = 2 if outcome == "late" else 120
    assert slow.play("test_it.py", seconds, tmp_path)[0] == outcome
    assert ("1 failed" in capfd.readouterr().out) == (outcome == "failed")


def test_without_time_no_group_is_played(capsys):
    assert slow.main(["--one", "--seconds", "0"]) == 0
    assert "0 s that are left" in capsys.readouterr().out


def test_closed_groups_have_outcomes_of_their_own(tmp_path, monkeypatch):
    known = ["integration/scenarios/test_a.py", "integration/world/test_b.py", "storage/test_c.py"]
    monkeypatch.setattr(slow, "groups", lambda _names: known)
    monkeypatch.setattr(slow, "ROOT", tmp_path)
    played = []

    def play(name, _seconds, *, flags):
        played.append((name, flags))
        return "passed", 7

    monkeypatch.setattr(slow, "play", play)
    for name in known:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    paths = {name: tmp_path / name for name in ("OUTCOMES", "CLOSED_OUTCOMES")}
    for name, path in paths.items():
        monkeypatch.setattr(slow, name, path)
        slow.write(path, {})
    monkeypatch.setattr(slow, "now", lambda: ("0123456789", 3))
    assert slow.main(["--closed"]) == 0
    assert played == [(known[0], ("--closed",))]
    assert list(slow.read(paths["CLOSED_OUTCOMES"])) == known[:1]
    assert slow.read(paths["OUTCOMES"]) == {}
    assert slow.main([]) == 0
    assert [name for name, flags in played if not flags] == known
    assert list(slow.read(paths["OUTCOMES"])) == known
