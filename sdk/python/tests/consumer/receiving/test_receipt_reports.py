"""Receipts that have arrived are reported to their brokers, until these have answered."""

import asyncio

from ariane_sdk.consumer.receiving.receipt_reports import RECEIPTS_MAX, ReceiptReports
from ariane_sdk.consumer.receiving.receive_calls import Answer, messages_of
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.runtime.clock import SystemClock
from sdk.python.tests.consumer.receiving.test_asking import encoded


class StepClock(SystemClock):
    """Each wait takes as long as it says, and no time."""

    def __init__(self):
        self.now_s = 1000.0
        self.waits = []

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        self.waits.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class Calls:
    """Gives answers with one receipt each, and hears what is kept, but for the first few times."""

    def __init__(self, clock, failures=0):
        self.clock, self.failures = clock, failures
        self.heard, self.count = [], 0

    def answer(self):
        self.count += 1
        (queue,) = receive_answer(encoded(self.count, 1))
        queue.head.receipt = b"%d" % self.count
        return Answer("a", "a:1", [queue], self.clock.monotonic_s() + 60)

    async def keep(self, broker_name, address, client_id, receipts):
        assert (broker_name, address, client_id) == ("a", "a:1", "me")
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ServiceUnavailable("away", retriable=True)
        self.heard.append(receipts)


def reports_of(calls, invisible_s=60.0):
    return ReceiptReports(calls, "me", invisible_s=invisible_s, clock=calls.clock)


async def heard(calls, count):
    async with asyncio.timeout(60):
        while sum(map(len, calls.heard)) < count:  # noqa: ASYNC110 - no event tells it.
            await asyncio.sleep(0)
    return sorted(int(each) for receipts in calls.heard for each in receipts)


async def test_what_came_in_a_moment_is_said_together():
    calls = Calls(StepClock())
    reports = reports_of(calls)
    for _ in range(3):
        reports.note(calls.answer())
    assert await heard(calls, 3) == [1, 2, 3]
    assert len(calls.heard) == 1
    assert calls.clock.waits == [1.0]
    await reports.close()


async def test_short_times_are_said_soon():
    calls = Calls(StepClock())
    reports = reports_of(calls, invisible_s=1.0)
    reports.note(calls.answer())
    await heard(calls, 1)
    assert calls.clock.waits == [0.25]
    await reports.close()


async def test_what_was_not_heard_is_said_again():
    calls = Calls(StepClock(), failures=3)
    reports = reports_of(calls)
    reports.note(calls.answer())
    assert await heard(calls, 1) == [1]
    assert len(calls.clock.waits) == 4
    await reports.close()


async def test_what_others_have_by_now_is_not_said():
    calls = Calls(StepClock(), failures=1000)
    reports = reports_of(calls)
    reports.note(calls.answer())
    async with asyncio.timeout(60):
        while calls.clock.now_s < 1060:  # noqa: ASYNC110 - no event tells it.
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
    assert calls.clock.waits == [1.0] * 60
    await reports.close()


async def test_a_broker_takes_so_many_in_one_call():
    calls = Calls(StepClock())
    reports = reports_of(calls)
    for _ in range(RECEIPTS_MAX + 1):
        reports.note(calls.answer())
    assert await heard(calls, RECEIPTS_MAX + 1) == list(range(1, RECEIPTS_MAX + 2))
    assert max(map(len, calls.heard)) <= RECEIPTS_MAX
    await reports.close()


async def test_what_is_said_of_messages_comes_behind_and_is_not_undone():
    calls = Calls(StepClock(), failures=1)
    reports = reports_of(calls)
    mine, other = calls.answer(), calls.answer()
    reports.note(mine)
    reports.note(other)
    await reports.report_before(messages_of(mine))
    assert calls.heard == []
    assert await heard(calls, 1) == [2]
    await reports.report_before(messages_of(other))
    assert calls.heard == [[b"2"]]
    await reports.close()
