"""What people see of the stages."""

import io

import pytest
from flight_demo.checks import Check, Promise, require, totals_table
from flight_demo.errors import TotalsDiffer
from flight_demo.stages import LineDisplay, Stages, TerminalDisplay, display_for
from rich.console import Console


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def paper():
    return Console(file=io.StringIO(), width=120, force_terminal=False, highlight=False)


def text_of(console):
    return console.file.getvalue()


def test_a_line_every_few_seconds_where_there_is_no_terminal(clock, paper):
    stages = Stages(LineDisplay(paper, clock=clock), clock)
    with stages.stage("publish", total=4000, unit="events") as stage:
        for second in range(8):
            clock.now = 100.0 + second
            stage.reach(second * 500)
        clock.now = 108.0
        stage.reach(4000)
    lines = text_of(paper).splitlines()
    assert lines[0] == "... publish: 1,500 of 4,000 events, 500/s"
    assert lines[-1] == "publish: 4,000 events in 8.0 s (500/s)"
    assert len(lines) == 3


def test_the_clock_of_a_stage_can_stop_before_it_ends(clock, paper):
    stages = Stages(LineDisplay(paper, clock=clock), clock)
    with stages.stage("consume", unit="events") as stage:
        clock.now += 2.0
        stage.reach(100)
        stage.finish()
        clock.now += 50.0
    [outcome] = stages.outcomes
    assert (outcome.seconds, outcome.rate) == (2.0, "50/s")


def test_something_is_done_once_a_stage_has_come_far_enough(clock, paper):
    stages = Stages(LineDisplay(paper, clock=clock), clock)
    done = []
    with stages.stage("publish", unit="events") as stage:
        stage.at(50, lambda: done.append(stage.count))
        for count in (0, 49, 51, 90):
            stage.reach(count)
    assert done == [51]


def test_where_a_rate_means_nothing_there_is_none(clock, paper):
    stages = Stages(LineDisplay(paper, clock=clock), clock)
    with stages.stage("start", unit="processes", rated=False) as stage:
        clock.now += 5.0
        stage.reach(3)
    assert text_of(paper) == "... start: 3 processes\nstart: 3 processes in 5.0 s\n"


def test_a_stage_that_fails_is_not_in_the_table(clock, paper):
    stages = Stages(LineDisplay(paper, clock=clock), clock)
    with pytest.raises(ValueError, match="no"), stages.stage("publish", unit="events"):
        raise ValueError("no")
    assert stages.outcomes == []


def test_a_terminal_gets_a_bar_and_the_bar_goes_away():
    screen = Console(file=io.StringIO(), width=120, force_terminal=True, highlight=False)
    assert isinstance(display_for(screen), TerminalDisplay)
    stages = Stages(display_for(screen))
    with stages.stage("publish", total=10, unit="events") as stage:
        stage.note("warming up")
        stage.reach(10)
    assert "publish" in text_of(screen)
    assert "10 events" in text_of(screen)


def test_totals_that_hold_pass(paper):
    checks = [Check("events", 5, 5), Check("twice", 0, 0, Promise.AT_LEAST_ONCE)]
    require(checks)
    paper.print(totals_table(checks))
    assert "DIFFERS" not in text_of(paper)
    assert "at least once" in text_of(paper)


def test_a_total_that_does_not_hold_is_named(paper):
    checks = [Check("events", 5, 5), Check("departed", 1200, 1199)]
    paper.print(totals_table(checks))
    assert text_of(paper).count("DIFFERS") == 1
    with pytest.raises(TotalsDiffer, match=r"1 of 2 .* departed: expected 1,200, found 1,199"):
        require(checks)


def test_repeats_hold_after_a_failure_only_and_losses_never():
    for promise, holds in (
        (Promise.EXACT, False),
        (Promise.AT_LEAST_ONCE, False),
        (Promise.AT_LEAST_ONCE_AFTER_A_FAILURE, True),
    ):
        assert Check("seen", 5, 6, promise).holds is holds
        assert not Check("seen", 5, 4, promise).holds
        assert Check("seen", 5, 5, promise).holds
