"""``make check`` tells what failed, the first thing in full, and fails itself."""

from __future__ import annotations

import sys

import pytest

from tools import check


def step(name: str, code: str) -> check.Step:
    return check.Step(name, f"what {name} is", (sys.executable, "-c", code))


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the given steps in the place of the real ones."""

    def run_steps(*steps: check.Step, names: tuple[str, ...] = ()) -> tuple[int, str]:
        monkeypatch.setattr(check, "steps", lambda: list(steps))
        return check.main(names), capsys.readouterr().out

    return run_steps


def test_all_pass(run):
    status, said = run(step("one", "print('quiet')"), step("two", ""))
    assert status == 0
    assert "check: 2 of 2 passed in" in said
    assert "quiet" not in said


def test_first_failure_is_told_in_full_and_all_are_named(run):
    status, said = run(
        step("one", ""),
        step("two", "print('two is ill'); raise SystemExit(1)"),
        step("three", "print('three is ill'); raise SystemExit(1)"),
    )
    assert status == 1
    assert "two is ill" in said
    assert "three is ill" not in said
    assert said.splitlines()[-1] == "check: 2 of 3 failed: two, three"


def test_one_step_can_be_chosen(run):
    ill = step("two", "raise SystemExit(1)")
    assert run(step("one", ""), ill, names=("one",))[0] == 0
    assert run(step("one", ""), ill, names=("six",))[0] == 2


def test_real_steps_have_names_of_their_own():
    names = [each.name for each in check.steps()]
    assert len(names) == len(set(names)) >= 9
