"""Clients that wait together: one call at the broker, and everybody is served in turn."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.brokers.receive_calls import ReceiveOrder
from ariane_gateway.receiving.shared_holds import LEADERS_MAX, SharedHolds
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused


class Broker:
    """Holds calls until it is told what they get."""

    def __init__(self):
        self.held = []
        self.cancelled = 0

    async def receive(self, broker_name, order, hold_s):
        call = SimpleNamespace(
            order=order, hold_s=hold_s, answer=asyncio.get_running_loop().create_future()
        )
        self.held.append(call)
        try:
            return await call.answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.held.remove(call)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def order(client, attempt_id="", topic="orders"):
    return ReceiveOrder("billing", Wanted(topic), client, 32, 30.0, attempt_id=attempt_id)


async def settle():
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shared(broker, clock):
    return SharedHolds(broker, clock)


@pytest.fixture
async def call(shared):
    """Begin a receive."""
    tasks = []

    def begin(client, hold_s=20.0, user="", **options):
        USER.set(user)
        task = asyncio.ensure_future(shared.receive("broker-a", order(client, **options), hold_s))
        tasks.append(task)
        return task

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_is_held_later_where_brokers_have_been_slow_to_answer(broker, clock, call):
    for _ in range(12):
        call("client-0")
        await settle()
        clock.now_s += 0.1
        broker.held[0].answer.set_result(["a"])
        await settle()
    for number, late_s in ((1, 0.0), (2, 0.2), (3, 0.2)):
        clock.now_s += late_s
        call(f"client-{number}")
        await settle()
    # The third one comes when the first one has no answer for longer than brokers take.
    assert [each.order.client_id for each in broker.held] == ["client-1", "client-2"]


async def test_one_call_is_held_for_all_and_the_next_leads_when_it_ends(
    broker, clock, call, shared
):
    calls = [call("client-0")]
    await settle()
    clock.now_s = 1.0  # It is held by now.
    calls += [call(f"client-{number}") for number in (1, 2, 3)]
    await settle()
    assert [each.order.client_id for each in broker.held] == ["client-0"]
    broker.held[0].answer.set_result(["a"])
    await settle()
    assert calls[0].result() == ["a"]
    # There may be more: two lead, for the rest of their time.
    assert [each.order.client_id for each in broker.held] == ["client-1", "client-2"]
    clock.now_s = 15.0
    broker.held[0].answer.set_result([])
    await settle()
    assert calls[1].result() == []
    assert [each.order.client_id for each in broker.held] == ["client-2"]
    broker.held[0].answer.set_result(["b"])
    await settle()
    assert [(each.order.client_id, each.hold_s) for each in broker.held] == [("client-3", 6.0)]
    assert shared.leading == 1


async def test_while_messages_flow_all_lead(broker, call):
    for number in range(LEADERS_MAX + 5):
        call(f"client-{number}")
    await settle()
    assert len(broker.held) == LEADERS_MAX


async def test_who_wants_something_else_waits_for_nobody(broker, clock, call):
    call("client-0")
    await settle()
    clock.now_s = 1.0
    call("client-1", topic="bills")
    call("client-2", hold_s=0.0)
    await settle()
    assert [each.order.client_id for each in broker.held] == ["client-0", "client-1", "client-2"]


async def test_users_wait_apart_for_each_is_judged_by_his_own_rights(broker, clock, call):
    for now_s, user in ((0.0, "anna"), (1.0, "bert"), (2.0, "anna")):
        clock.now_s = now_s
        call(f"client-of-{user}", user=user)
        await settle()
    assert [each.order.client_id for each in broker.held] == ["client-of-anna", "client-of-bert"]


async def test_the_place_of_a_client_that_leaves_goes_to_the_next(broker, clock, call):
    first = call("client-0")
    await settle()
    clock.now_s = 1.0
    second, third = call("client-1"), call("client-2")
    await settle()
    second.cancel()
    first.cancel()
    await settle()
    assert broker.cancelled == 1
    assert [each.order.client_id for each in broker.held] == ["client-2"]
    broker.held[0].answer.set_exception(Refused(Refusal.BUSY, "too much"))
    with pytest.raises(Refused):
        await third


async def test_a_follower_whose_time_is_over_gets_nothing(broker, clock, call, shared):
    call("client-0")
    await settle()
    clock.now_s = 1.0
    assert await call("client-1", hold_s=0.01) == []
    assert [each.order.client_id for each in broker.held] == ["client-0"]


async def test_a_repeated_attempt_does_not_wait_for_its_turn(broker, clock, call):
    lost = call("client-0", attempt_id="first")
    await settle()
    broker.held[0].answer.set_result(["a"])
    await lost
    call("client-1")
    await settle()
    clock.now_s = 1.0
    call("client-0", attempt_id="first")
    call("client-2", attempt_id="other")
    await settle()
    assert [each.order.client_id for each in broker.held] == ["client-1", "client-0"]
