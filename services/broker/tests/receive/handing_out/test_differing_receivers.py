"""Consumers of a group that want different messages: each would have the other's settled unseen."""

import asyncio

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from services.broker.tests.receive.receive_calls import Receiver, held, order


@pytest.fixture
async def tagged(broker):
    """A broker with messages of two tags."""
    await broker.create_topic("orders")
    await broker.create_topic("bills")
    for tag in "ab":
        await broker.store("orders", [b"x"] * 4, tags=[tag] * 4)
    return broker


async def attach(broker, client_id, tag):
    subscription = order("orders", tag=tag).subscriptions[0]
    membership = client_pb.Membership(
        consumer_group="billing",
        model=client_pb.CONSUME_MODEL_RECEIVING,
        subscriptions=[subscription],
    )
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(client_id=client_id, memberships=[membership])
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).WhichOneof("content") == "accepted"
    return call


async def members(broker):
    request = client_pb.ListGroupMembersRequest(consumer_group="billing")
    return list((await broker.clients.ListGroupMembers(request)).members)


async def attach_and_leave(broker, client_id, tag):
    (await attach(broker, client_id, tag)).cancel()
    # Its stream ends some time after.
    async with asyncio.timeout(60):
        while await members(broker):  # noqa: ASYNC110 - it is in a broker.
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("other", ["two", "one", ""])
async def test_a_receiver_with_another_filter_of_the_topic_is_refused(
    clock, tagged, refused, other
):
    """Also under the same name: consumers of one process may share it."""
    one = Receiver(tagged)
    first = await one.receive(tag="a", client_id="one")
    assert len(first) == 4
    failure = await refused(one.receive(tag="b", client_id=other))
    assert (failure.reason, failure.code) == ("SUBSCRIPTION_CONFLICT", "FAILED_PRECONDITION")
    # The refused one does not keep itself in force, and a held call counts until its end.
    clock.advance(29)
    await one.receive(tag="a", client_id="one")
    clock.advance(29)
    await refused(one.receive(tag="b", client_id=other))
    clock.advance(2)
    await one.receive(tag="b", client_id=other)
    await refused(one.receive(tag="a", client_id="one"))


async def test_equal_filters_and_those_of_other_topics_are_accepted(tagged):
    one, two = Receiver(tagged), Receiver(tagged)
    await one.receive(tag="a||b", client_id="one")
    await two.receive(tag="b || a", client_id="two")
    await one.receive("bills", tag="x", client_id="one")
    other = Receiver(tagged, "other")
    assert len(await other.receive(tag="b", client_id="one")) == 4


async def test_a_waiting_call_keeps_its_filter_in_force(clock, tagged, refused):
    one = Receiver(tagged)
    waiting = asyncio.create_task(one.receive(tag="c", client_id="one", hold_s=30))
    await held(tagged, 1)
    clock.advance(59)
    await refused(one.receive(tag="a", client_id="two"))
    waiting.cancel()


async def test_an_attached_member_is_compared_too_until_it_leaves(tagged, refused):
    one = Receiver(tagged)
    await one.receive(tag="a", client_id="one")
    assert (await refused(attach(tagged, "two", "b"))).reason == "SUBSCRIPTION_CONFLICT"
    await attach_and_leave(tagged, "one", "a")
    (await attach(tagged, "two", "b")).cancel()


async def test_a_filter_stays_in_force_while_one_of_its_receivers_stays(tagged, refused):
    one = Receiver(tagged)
    await one.receive(tag="a", client_id="one", message_count_max=1)
    await one.receive(tag="a", client_id="two", message_count_max=1)
    await attach_and_leave(tagged, "one", "a")
    failure = await refused(one.receive(tag="b", client_id="three"))
    assert failure.reason == "SUBSCRIPTION_CONFLICT"


async def test_a_group_may_admit_them(tagged):
    one = Receiver(tagged)
    await one.make_group(subscription_conflict_policy=group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG)
    assert len(await one.receive(tag="a", client_id="one", message_count_max=2)) == 2
    await one.receive(tag="b", client_id="two")
