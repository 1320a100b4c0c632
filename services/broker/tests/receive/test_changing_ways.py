"""A group goes from owning queues to receiving, and back: nothing settled comes, none is lost."""

import asyncio

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_broker.read.queue_looks import QueueLooks
from services.broker.tests.receive.receive_calls import Receiver, bodies, held


async def test_owners_go_on_where_receivers_have_settled(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(8)])
    one = Receiver(broker)
    received = await one.receive(message_count_max=6, invisible_s=20)
    await one.ack(received[0], received[2], received[3])
    assert await broker.known_offset("billing", "orders") == 1
    # Another has 1 in hand.
    assert await broker.bodies("orders", 0, 1, group="billing") == []
    waiting = asyncio.create_task(broker.pull(("orders", 0, 1), group="billing", hold_s=30))
    await held(broker, 1)
    clock.advance(21)
    (pulled,) = await waiting
    assert (pulled.next_queue_offset, len(pulled.record_sizes)) == (2, 4)
    assert await broker.bodies("orders", 0, 2, group="billing") == [b"4", b"5", b"6", b"7"]
    assert await broker.bodies("orders", 0, 1, group="others") == [b"%d" % n for n in range(1, 8)]


async def test_receivers_go_on_where_owners_have_stored(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(8)])
    one = Receiver(broker)
    first = await one.receive(message_count_max=2)
    await broker.store_offset("billing", "orders", 0, 5)
    assert bodies(await one.receive()) == ["5", "6", "7"]
    assert await one.ack(*first) == [True, True]
    assert await one.standing() == [(5, 3, 3, 0, 0)]


async def test_receiving_is_refused_while_members_own_queues(broker, refused):
    await broker.create_topic("orders")
    hello = client_pb.ClientHello(
        client_id="owner", memberships=[client_pb.Membership(consumer_group="billing")]
    )
    stream = broker.clients.Attach()
    await stream.write(client_pb.AttachRequest(hello=hello))
    await stream.read()
    failure = await refused(Receiver(broker).receive())
    assert (failure.reason, failure.code) == ("SUBSCRIPTION_CONFLICT", "FAILED_PRECONDITION")
    stream.cancel()


async def test_settling_wakes_no_reader_of_another_group(broker, monkeypatch):
    await broker.create_topic("orders")
    await broker.store("orders", [b"%d" % n for n in range(8)])
    membership = client_pb.Membership(
        consumer_group="billing", model=client_pb.CONSUME_MODEL_RECEIVING
    )
    membership.subscriptions.add(topic="orders")
    stream = broker.clients.Attach()
    hello = client_pb.ClientHello(client_id="one", memberships=[membership])
    await stream.write(client_pb.AttachRequest(hello=hello))
    await stream.read()
    one = Receiver(broker)
    received = await one.receive(client_id="one")
    waiting = asyncio.create_task(broker.pull(("orders", 0, 8), group="others", hold_s=30))
    await held(broker, 1)
    looks, look = [], QueueLooks.look
    monkeypatch.setattr(QueueLooks, "look", lambda *given: looks.append(1) or look(*given))
    for each in received:
        assert await one.ack(each) == [True]
    assert looks == []
    await broker.store("orders", [b"new"])
    (pulled,) = await waiting
    assert pulled.next_queue_offset == 9
    stream.cancel()


async def test_an_offset_set_anew_is_where_receiving_goes_on(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    one = Receiver(broker)
    first = await one.receive()
    await one.ack(first[0])
    await broker.offsets.ResetConsumerOffsets(
        offset_pb.ResetConsumerOffsetsRequest(
            consumer_group="billing", topic="orders", earliest=True
        )
    )
    assert bodies(await one.receive()) == ["a", "b"]
    assert await one.ack(*first) == [False, False]
