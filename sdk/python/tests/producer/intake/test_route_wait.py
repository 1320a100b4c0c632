"""Messages that wait for a route, and those who give up waiting."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors


async def test_close_asks_no_longer_for_a_route_that_nobody_waits_for(world):
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    settings = ProducerSettings(send_timeout_s=600.0)
    async with asyncio.timeout(60):
        async with Producer(world.name_servers, settings=settings) as producer:
            with pytest.raises(errors.SendError, match="not stored"):
                await producer.send(Message("orders", b"alone"), timeout_s=0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await producer.send_batch([Message("orders", b"a"), Message("orders", b"b")])
            late = asyncio.create_task(producer.send(Message("orders", b"late"), timeout_s=1.0))
            await asyncio.sleep(0)
        with pytest.raises(errors.SendError, match="not stored"):
            await late
    assert producer._unsettled.size_bytes == 0


async def test_a_message_gets_its_route_when_others_have_stopped_waiting(world):
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    async with Producer(world.name_servers) as producer:
        kept = producer.send_nowait(Message("orders", b"kept"))
        with pytest.raises(errors.SendError, match="not stored"):
            await producer.send(Message("orders", b"given up"), timeout_s=0.05)
        world.name_server.refusal = None
        assert (await kept).queue_offset == 0
        await producer.send(Message("orders", b"next"))
    assert world.brokers["broker-a"].bodies == [b"kept", b"next"]


@pytest.mark.parametrize("why", ["it has just started", "an order of queues outlives the topic"])
async def test_a_name_server_that_may_yet_learn_of_a_topic_is_asked_again(world, why):
    server = world.name_server
    route = server.routes.pop("orders")
    if why == "it has just started":
        server.warming_up = True
    else:
        server.orders["orders"] = "broker-a:2"
    async with asyncio.timeout(60), Producer(world.name_servers) as producer:
        sent = producer.send_nowait(Message("orders", b"early"))
        while server.asked.count("orders") < 2:
            server.heard.clear()
            await server.heard.wait()
        server.routes["orders"] = route
        assert (await sent).queue_offset == 0


async def test_a_topic_that_nobody_will_have_is_refused_at_once(world):
    del world.name_server.routes["orders"]
    async with asyncio.timeout(60), Producer(world.name_servers) as producer:
        with pytest.raises(errors.SendError) as refused:
            await producer.send(Message("orders", b"x"))
    assert refused.value.reason == "ROUTE_NOT_FOUND"
    assert world.name_server.asked.count("orders") == 1
