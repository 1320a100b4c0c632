import driver_loop
import pytest
from driver_loop import Arrivals, digest_of


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(driver_loop.time, "perf_counter", lambda: Clock.now)
    return Clock


def test_the_first_chunk_counts_as_if_it_had_taken_its_time(clock):
    arrivals = Arrivals(40)
    for clock.now, count in ((105.0, 20), (106.0, 10), (107.0, 10)):
        assert not arrivals.whole
        arrivals.take([b"body"] * count)
    assert arrivals.whole
    assert arrivals.left == 0
    answer = arrivals.answer()
    assert (answer["count"], answer["seconds"]) == (40, 4.0)
    assert (answer["begin"], answer["end"]) == (105.0, 107.0)
    assert answer["digest"] == digest_of([b"body"] * 40)


def test_a_straggler_does_not_slow_all_the_others(clock):
    arrivals = Arrivals(1000)
    for clock.now, count in ((101.0, 999), (101.5, 1)):
        arrivals.take([b"body"] * count)
    assert arrivals.answer()["seconds"] == 1.5


def test_a_single_chunk_counts_from_the_question(clock):
    arrivals = Arrivals(3, lambda chunk: digest_of([each.encode() for each in chunk]))
    clock.now = 101.5
    arrivals.take(["a", "b", "c"])
    answer = arrivals.answer()
    assert answer["seconds"] == 1.5
    assert answer["digest"] == digest_of([b"a", b"b", b"c"])


async def test_nothing_comes(monkeypatch):
    monkeypatch.setattr(driver_loop, "SILENCE_S_MAX", 0.01)
    arrivals = Arrivals(3)
    await arrivals.wait()
    assert (arrivals.answer()["count"], arrivals.answer()["digest"]) == (0, 0)
