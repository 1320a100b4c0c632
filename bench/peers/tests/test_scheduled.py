import asyncio
from types import SimpleNamespace

import pytest
import scheduled
from scheduled import Heard, Schedule, send_on_schedule

LOAD = {
    "count": 40, "rate": 2000, "body_bytes": 40, "delay_ms": 0, "warm_up_count": 10,
}  # fmt: skip


async def sent_bodies(load, outcome=None):
    """What is sent on a schedule, and what the sender says; `outcome` fails each."""
    bodies = []

    def send(body, later_ms):
        bodies.append((body, later_ms))
        future = asyncio.get_running_loop().create_future()
        future.set_exception(outcome) if outcome else future.set_result(None)
        return future

    return bodies, await send_on_schedule(Schedule(load), send)


def message(body):
    return SimpleNamespace(body=body)


async def test_all_are_sent_in_bursts_and_heard_as_they_were_sent():
    bodies, said = await sent_bodies(LOAD)
    assert (said["count"], said["failures"]) == (40, 0)
    assert said["seconds"] >= 0.019 + 0.05
    heard = Heard(LOAD)
    heard.take([message(body) for body, _ in bodies])
    await heard.wait()
    answer = heard.answer()
    assert (answer["count"], answer["altered"]) == (40, 0)
    assert 0 < answer["percentiles"]["p50"] <= answer["percentiles"]["max"]


async def test_lost_repeated_and_altered_messages_are_reported(monkeypatch):
    monkeypatch.setattr(scheduled, "SILENCE_S_MAX", 0.01)
    bodies = [body for body, _ in (await sent_bodies(LOAD))[0]]
    altered = bodies[30][:-1] + b"\0"
    heard = Heard(LOAD)
    heard.take([message(body) for body in [*bodies[:30], bodies[0], altered]])
    await heard.wait()
    answer = heard.answer()
    assert (answer["count"], answer["altered"]) == (30, 1)


async def test_an_acknowledgement_counts_from_when_its_message_was_due():
    def send(_body, _later_ms):
        outcome = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.02, outcome.set_result, None)
        return outcome

    said = await send_on_schedule(Schedule(LOAD), send)
    assert list(said["acknowledged"]) == ["p50", "p99", "p99.9", "max"]
    assert 19 <= said["acknowledged"]["p50"] <= said["acknowledged"]["max"] < 2000


async def test_sends_that_fail_are_counted():
    _, said = await sent_bodies(LOAD, OSError("gone"))
    assert (said["count"], said["failures"]) == (0, 40)
    assert set(said["acknowledged"].values()) == {-1}


async def test_a_client_without_room_is_counted_as_a_failure():
    def send(_body, _later_ms):
        raise BufferError

    said = await send_on_schedule(Schedule(LOAD), send)
    assert (said["count"], said["failures"]) == (0, 40)


def test_delays_lie_between_once_and_twice_what_is_asked():
    schedule = Schedule({**LOAD, "delay_ms": 100})
    delays = [schedule.delay_ms_of(number) for number in range(1000)]
    assert (min(delays), max(delays)) == (100, 199)
    assert delays != sorted(delays)
    assert schedule.delay_ms_of(0) == pytest.approx(100)
