"""Virtual time: one order of what happens, and a trace whose digest is that of its lines."""

import io
from hashlib import blake2b

from played_world.machines.timeline import NOTED_MAX, Timeline


def test_what_happens_at_one_time_happens_in_the_order_in_which_it_was_asked_for():
    timeline, done = Timeline(1), []
    for name in ("first", "second"):
        timeline.after(1.0, done.append, name)
    timeline.at(0.5, done.append, "before")
    timeline.after(-1.0, done.append, "at once")
    timeline.run(1.0)
    assert done == ["at once", "before", "first", "second"]


def test_a_while_passes_at_once_only_if_nothing_happens_in_it():
    timeline, passed = Timeline(1), []

    def act():
        passed.extend(
            (seconds, timeline.pass_by(seconds), timeline.now)
            for seconds in (0.5, 0.5, 0.4, 2.0, 0.6)
        )

    timeline.after(0.0, act)
    timeline.after(1.0, passed.append, "another")
    timeline.run(2.0)
    assert passed == [
        (0.5, True, 0.5),
        (0.5, False, 0.5),  # It would not be before the other one.
        (0.4, True, 0.9),
        (2.0, False, 0.9),
        (0.6, False, 0.9),
        "another",
    ]
    assert not timeline.pass_by(0.1), "the run is over"


def test_the_digest_is_that_of_all_lines_whether_somebody_reads_them_or_not():
    trace = io.StringIO()
    timelines = [Timeline(1), Timeline(1, trace)]
    for timeline in timelines:
        for number in range(NOTED_MAX + 3):
            timeline.note(f"line {number}")
    one, other = (timeline.digest for timeline in timelines)
    assert one == other == blake2b(trace.getvalue().encode(), digest_size=16).hexdigest()
    assert trace.getvalue().count("\n") == NOTED_MAX + 3
    assert trace.getvalue().startswith("0.000000 line 0\n")
