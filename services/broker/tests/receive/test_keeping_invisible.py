"""What the broker keeps invisible by itself while the client is attached."""

import asyncio

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane_servicekit.security.caller import MemberKind
from services.broker.tests.clients.test_relayed_clients import Gateway, present
from services.broker.tests.receive.receive_calls import Receiver, bodies, settlement


async def attached(broker, client_id):
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(client_id=client_id)
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).WhichOneof("content") == "accepted"
    return call


async def kept(one):
    """Receive the one message, and have the broker keep it invisible."""
    (received,) = await one.receive(invisible_s=2)
    assert await one.keep("c", received) == [True]
    return received


async def pass_time(clock, call, turns=6):
    """Two minutes, in which the client is heard of."""
    for _ in range(turns):
        await asyncio.sleep(0.3)
        clock.advance(20)
        await call.write(client_pb.AttachRequest(heartbeat=client_pb.ClientHeartbeat()))
        await call.read()


async def test_it_stays_invisible_while_the_client_is_attached_and_comes_then(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    await kept(one)
    for _ in range(6):
        await pass_time(clock, call, 1)
        assert await other.receive() == []
    call.cancel()
    async with asyncio.timeout(60):
        while not (again := await other.receive()):
            clock.advance(20)
            await asyncio.sleep(0.1)
    assert bodies(again) == ["a"]


async def test_an_invisible_time_that_the_client_sets_is_not_renewed(clock, broker):
    """Clients that failed at a message give it back so: it would never come again."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    received = await kept(one)
    await one.hide(received, 10)
    await asyncio.sleep(0.3)
    clock.advance(11)
    assert bodies(await other.receive()) == ["a"]
    call.cancel()


async def test_an_invisible_time_that_the_client_has_set_is_not_renewed(clock, broker):
    """A gateway has messages kept beside its answer: the client may be quicker, and fail."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    (received,) = await one.receive(invisible_s=2)
    await one.hide(received, 10)
    assert await one.keep("c", received) == [True]
    await asyncio.sleep(0.3)
    clock.advance(11)
    assert bodies(await other.receive()) == ["a"]
    call.cancel()


async def test_messages_that_a_client_has_not_confirmed_come_again(clock, broker):
    """An answer may be lost on its way to a client that is attached."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    await one.receive(invisible_s=2, client_id="c", message_count_max=1)
    await kept(one)
    await pass_time(clock, call)
    assert bodies(await other.receive()) == ["a"]
    call.cancel()


async def test_packed_records_are_kept_by_their_receipt_but_for_what_was_given_back(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    (queue,) = await one.receive_packed(invisible_s=2)
    given_back = settlement(queue, (1, 1))
    given_back.invisible_duration.SetInParent()
    await one.settle(given_back)
    assert await one.keep("c", receipts=[queue.receipt]) == [True]
    await pass_time(clock, call)
    assert bodies(await other.receive()) == ["b"]
    call.cancel()


async def test_messages_that_another_client_has_by_now_are_not_kept(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    (mine,) = await one.receive(invisible_s=2)
    clock.advance(3)
    (other_s,) = await other.receive(invisible_s=2)
    assert await one.keep("c", mine, receipts=[b"forged"]) == [False, False]
    clock.advance(3)
    assert bodies(await one.receive()) == ["a"]
    assert await other.keep("c", other_s) == [False]


@pytest.mark.parametrize("lost", ["topic orders", "group billing"])
async def test_it_comes_again_once_its_user_may_not_settle_it_any_more(clock, running_closed, lost):
    """His client lives on behind its gateway, and would hide it for half a day."""
    rights = {f"allow SUBSCRIBE {each}" for each in ("topic orders", "group billing")}
    async with running_closed("shop: " + "; ".join(rights)) as closed:
        root, shop = Receiver(await closed.of("root")), Receiver(await closed.of("shop"))
        await root.broker.create_topic("orders")
        await root.broker.store("orders", [b"a"])
        gateway = Gateway(await closed.of(MemberKind.GATEWAY), "gateway-1")
        await gateway.attach()
        await gateway.tell(present("c", "billing", user="shop"))
        await kept(shop)
        await pass_time(clock, gateway.call)
        assert await root.receive() == []
        await closed.admin.tell("shop: " + "; ".join(rights - {f"allow SUBSCRIBE {lost}"}))
        await pass_time(clock, gateway.call, 4)
        assert bodies(await root.receive()) == ["a"]
        gateway.call.cancel()


async def test_whose_messages_are_kept_must_be_said(broker, refused):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one = Receiver(broker)
    (received,) = await one.receive()
    failure = await refused(one.keep("", received))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "client_id")
    failure = await refused(one.keep("c"))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "receipts")
