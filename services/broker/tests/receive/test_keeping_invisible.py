"""What the broker keeps invisible by itself while the client is attached."""

import asyncio

from ariane.broker.v1 import client_service_pb2 as client_pb
from services.broker.tests.receive.receive_calls import Receiver, bodies


async def attached(broker, client_id):
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(client_id=client_id)
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).WhichOneof("content") == "accepted"
    return call


async def renewed(one):
    """Receive the one message and wait until the broker has renewed it."""
    (received,) = await one.receive(invisible_s=2, keep_invisible=True, client_id="c")
    return received


async def test_it_stays_invisible_while_the_client_is_attached_and_comes_then(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    await renewed(one)
    for _ in range(6):
        await asyncio.sleep(0.3)
        clock.advance(20)
        await call.write(client_pb.AttachRequest(heartbeat=client_pb.ClientHeartbeat()))
        await call.read()
        assert await other.receive() == []
    call.cancel()
    async with asyncio.timeout(60):
        while not (again := await other.receive()):
            clock.advance(20)
            await asyncio.sleep(0.1)
    assert bodies(again) == ["a"]


async def test_who_says_how_long_is_taken_at_the_word(clock, broker):
    """Clients that failed at a message give it back so: it would never come again."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    one, other = Receiver(broker), Receiver(broker)
    call = await attached(broker, "c")
    received = await renewed(one)
    await one.hide(received, 10)
    await asyncio.sleep(0.3)
    clock.advance(11)
    assert bodies(await other.receive()) == ["a"]
    call.cancel()
