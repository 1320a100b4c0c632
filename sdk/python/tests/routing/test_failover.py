"""Which failed calls put a route in doubt and are made again, and until when."""

from __future__ import annotations

import asyncio

import pytest

from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    ReceiptExpired,
    ServiceUnavailable,
    TopicNotFound,
)
from ariane_sdk.net.status import REASON_ROWS
from ariane_sdk.routing.failover import Failover, misleads

NOT_PRIMARY = ServiceUnavailable("scripted", reason="BROKER_NOT_PRIMARY", retriable=True)
SILENT = DeadlinePassed("scripted", retriable=True, outcome_unknown=True)
BROKEN = ServiceUnavailable("scripted", retriable=True, outcome_unknown=True)


class JumpingClock:
    """Sleeps take no time, and move the clock."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        self.now_s += seconds
        await asyncio.sleep(0)


class Routes:
    """What was doubted, and what was waited for."""

    def __init__(self):
        self.doubted = []
        self.reconsidered = []

    def doubt(self, topic):
        self.doubted.append(topic)

    async def reconsider(self, topic):
        self.reconsidered.append(topic)


class Calls:
    """Fails with each error in turn, and then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.count = 0

    async def __call__(self):
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture
def routes():
    return Routes()


@pytest.fixture
def clock():
    return JumpingClock()


@pytest.fixture
def failover(routes, clock):
    return Failover(routes, clock)


@pytest.mark.parametrize("error", [NOT_PRIMARY, SILENT, BROKEN], ids=lambda error: error.reason)
async def test_a_call_is_made_again_by_a_newer_route(failover, routes, error):
    calls = Calls(error, error)
    assert await failover.ask(calls, ["orders", "bills"]) == "answer"
    assert calls.count == 3
    assert routes.reconsidered == ["orders", "bills"] * 2


async def test_a_refusal_that_passes_by_itself_is_no_reason_to_doubt(failover, routes):
    calls = Calls(CallError("scripted", retriable=True))
    assert await failover.ask(calls, ["orders"]) == "answer"
    assert not routes.reconsidered + routes.doubted


@pytest.mark.parametrize("error", [ReceiptExpired("gone"), TopicNotFound("gone")])
async def test_a_refusal_for_good_ends_the_call(failover, routes, error):
    calls = Calls(error)
    with pytest.raises(type(error)):
        await failover.ask(calls, ["orders"])
    assert calls.count == 1
    assert routes.doubted == (["orders"] if misleads(error) else [])


async def test_patience_ends_and_the_outcome_of_all_tries_counts(failover, routes, clock):
    calls = Calls(SILENT, *[NOT_PRIMARY] * 1000)
    began_s = clock.now_s
    with pytest.raises(ServiceUnavailable) as failed:
        await failover.ask(calls, ["orders"], patience_s=20.0)
    assert 20.0 <= clock.now_s - began_s < 22.0
    assert failed.value.outcome_unknown
    assert calls.count > 10
    assert routes.doubted == ["orders"]


async def test_without_patience_there_is_one_try_and_the_doubt(failover, routes):
    calls = Calls(NOT_PRIMARY)
    with pytest.raises(ServiceUnavailable):
        await failover.ask(calls, ["orders"], patience_s=0.0)
    assert (calls.count, routes.doubted) == (1, ["orders"])


async def test_reading_has_no_unknown_outcome(failover):
    with pytest.raises(DeadlinePassed) as failed:
        await failover.ask(Calls(SILENT), patience_s=0.0, reads=True)
    assert not failed.value.outcome_unknown


async def test_an_answer_that_settles_earlier_tries_makes_their_outcome_known(failover):
    decided = CallError("scripted", reason="TRANSACTION_DECIDED")
    with pytest.raises(CallError) as failed:
        await failover.ask(
            Calls(DeadlinePassed("scripted", retriable=True, outcome_unknown=True), decided),
            is_final=lambda error: error.reason == "TRANSACTION_DECIDED",
        )
    assert not failed.value.outcome_unknown


def test_what_a_broker_that_is_no_primary_refuses_may_succeed_elsewhere():
    assert REASON_ROWS["BROKER_NOT_PRIMARY"].retriable
    assert not REASON_ROWS["BROKER_NOT_PRIMARY"].outcome_unknown
