"""How long a consumer that starts waits for its brokers to let it in."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane.broker.v1.client_service_pb2 import Membership
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.consumer.group import attachments as module
from ariane_sdk.errors import CallError, DeadlinePassed
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import SystemClock

CALL_S = 0.2
ROUTE = SimpleNamespace(
    brokers=[
        SimpleNamespace(broker_name="broker-a", read_address="127.0.0.1:1"),
        SimpleNamespace(broker_name="broker-b", read_address="127.0.0.1:2"),
    ]
)


class SlowAttachment:
    """Lets the client in, or fails, when it is told to."""

    def __init__(self, name, address, *_arguments, **_options):
        self.broker_name = name
        self.address = address
        self.attached = False
        self.ended = False
        self.error = None
        self._tried = asyncio.Event()

    async def close(self, timeout_s):
        pass

    async def wait_tried(self):
        await self._tried.wait()

    def end(self, error=None):
        self.error = error
        self.attached = error is None
        self._tried.set()


@pytest.fixture
def attachments(monkeypatch):
    monkeypatch.setattr(module, "Attachment", SlowAttachment)
    nothing = lambda *_: None  # noqa: E731 - nobody is told.
    made = module.Attachments(
        Membership(consumer_group="g"),
        None,
        client_id="c",
        clock=SystemClock(),
        call_timeout_s=CALL_S,
        on_notice=nothing,
        on_fatal=nothing,
        on_turn=nothing,
        answers=OperatorAnswers(facts=dict),
    )
    made.follow([ROUTE])
    return made


async def test_a_late_broker_is_waited_for_when_no_other_answers(attachments):
    first, _ = attachments._by_broker.values()
    asyncio.get_running_loop().call_later(2 * CALL_S, first.end)
    assert await attachments.wait_tried() is None


async def test_once_let_in_a_consumer_waits_for_others_no_longer_than_a_call(attachments):
    first, _ = attachments._by_broker.values()
    first.end()
    async with asyncio.timeout(module.PATIENCE_CALLS * CALL_S * 0.9):
        assert await attachments.wait_tried() is None


async def test_all_that_fail_are_reason_to_wait_no_longer(attachments):
    refusal = CallError("no")
    for attachment in attachments._by_broker.values():
        attachment.end(refusal)
    async with asyncio.timeout(CALL_S * 0.9):
        assert await attachments.wait_tried() is refusal


async def test_brokers_that_never_answer_are_waited_for_in_vain_once(attachments):
    refusal = await attachments.wait_tried()
    assert isinstance(refusal, DeadlinePassed)
    assert refusal.retriable
    assert f"{module.PATIENCE_CALLS * CALL_S:g} s" in str(refusal)


async def test_the_first_route_says_where_a_broker_is(attachments):
    # A group's retry topic that a new primary lacks keeps the route to the one before.
    moved = Route("orders", (BrokerRoute("c", "a", {0: "new:1"}, 1, 1),))
    stale = Route("%RETRY%g", (BrokerRoute("c", "a", {0: "old:1"}, 1, 1),))
    attachments.follow([moved, stale])
    assert [each.address for each in attachments._by_broker.values()] == ["new:1"]


async def test_a_client_that_has_left_attaches_to_no_other_broker(attachments):
    await attachments.close()
    attachments.follow([Route("orders", (BrokerRoute("c", "later", {0: "later:1"}, 1, 1),))])
    assert set(attachments.broker_names) == {"broker-a", "broker-b"}
