"""A consumer that starts while a set elects a primary waits for it, as every other call does."""

from types import SimpleNamespace

import pytest

from ariane_sdk.consumer.consumer_life import ConsumerLife
from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.routing.failover import PATIENCE_S


class Set:
    """A set whose broker refuses members so many times."""

    def __init__(self, refusal_count, reason="BROKER_NOT_PRIMARY"):
        self.refusal_count = refusal_count
        self.now_s = 0.0
        self.reason = reason
        self.waits = []

    # As ``Attachments``.

    def follow(self, routes):
        assert routes

    async def wait_tried(self):
        self.refusal_count -= 1
        if self.refusal_count >= 0:
            return ServiceUnavailable("not now", reason=self.reason, retriable=True)
        return None

    # As ``Failover``, and as its clock.

    async def wait(self, _error, topics, delay_s, left_s):
        self.waits.append(list(topics))
        self.now_s += min(delay_s, left_s)

    def monotonic_s(self):
        return self.now_s

    def member(self):
        life = ConsumerLife.__new__(ConsumerLife)
        life.plan = SimpleNamespace(clock=self, group="g", filters={"orders": "*"})
        life.session = SimpleNamespace(failover=self)
        life.failure, life._closing, life._attachments = None, False, self
        life._started = False
        life._known_routes = lambda: ["a route"]
        return life


async def test_it_is_let_in_once_there_is_one():
    asked = Set(refusal_count=3)
    await asked.member()._wait_admitted()
    assert asked.waits == [["orders"]] * 3


async def test_it_does_not_wait_for_ever():
    asked = Set(refusal_count=10_000)
    with pytest.raises(ServiceUnavailable):
        await asked.member()._wait_admitted()
    assert asked.now_s == PATIENCE_S


async def test_it_waits_for_nothing_else():
    asked = Set(refusal_count=1, reason="SERVICE_DRAINING")
    with pytest.raises(ServiceUnavailable):
        await asked.member()._wait_admitted()
    assert not asked.waits
