"""Sends that wait while a replica takes over go on as soon as the route names it."""

from __future__ import annotations

import asyncio

from ariane_sdk import Message, Producer, ProducerSettings

NOBODY = "127.0.0.1:1"

# What was refused waits longer for its next round than the test would wait for it.
SLOW = ProducerSettings(
    send_timeout_s=600, call_timeout_s=60, repeat_delay_s_min=300, repeat_delay_s_max=300
)


async def test_a_send_that_waits_for_its_next_round_goes_to_a_new_primary_at_once(world):
    server, address = world.name_server, world.brokers["broker-a"].address
    server.set_route("orders", {"broker-a": NOBODY})
    async with Producer(world.name_servers, settings=SLOW) as producer:
        sending = asyncio.create_task(producer.send(Message("orders", b"a")))
        async with asyncio.timeout(60):
            # Nobody tells that a batch waits for a round.
            while not any(batch.failed_rounds for batch in producer._unsettled.rows):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not sending.done()
        server.set_route("orders", {"broker-a": address})
        async with asyncio.timeout(60):
            await producer._session.routes.reconsider("orders")
            await sending


async def test_a_primary_that_goes_silent_is_left_for_the_next_one(two_brokers):
    """Its connections stay open: nothing but the missing answer puts the route in doubt."""
    world, server = two_brokers, two_brokers.name_server
    silent, taking_over = world.brokers["broker-a"], world.brokers["broker-b"]
    server.set_route("orders", {"broker-a": silent.address})
    silent.script.extend(["hang"] * 1000)
    settings = ProducerSettings(send_timeout_s=600, call_timeout_s=1)
    async with Producer(world.name_servers, settings=settings) as producer:
        sending = asyncio.create_task(producer.send(Message("orders", b"a")))
        async with asyncio.timeout(60):
            await silent.wait_called(1)
        server.set_route("orders", {"broker-a": taking_over.address})
        async with asyncio.timeout(20):  # Without doubt, routes are refreshed every 30 s.
            await sending
    assert taking_over.bodies == [b"a"]
