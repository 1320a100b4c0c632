"""Sends while name servers hang: what is refused for one topic holds up no other one."""

import asyncio

import grpc
import pytest

import ariane_wire
from ariane.namesrv.v1.route_service_pb2_grpc import add_RouteServiceServicer_to_server
from ariane_sdk import Message, Producer, ProducerSettings, errors

PATIENT = ProducerSettings(call_timeout_s=20.0, send_timeout_s=20.0, repeat_delay_s_max=0.1)


@pytest.fixture
async def hanging(world):
    """A name server that knows what ``world``'s knows, and answers while ``answers`` is set."""

    class Hanging(type(world.name_server)):
        async def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
            await self.answers.wait()
            return await super().GetRoute(request, context)

    known = Hanging()
    known.answers = asyncio.Event()
    known.answers.set()
    world.name_server.set_route("bills", {"broker-a": world.brokers["broker-a"].address})
    known.routes = world.name_server.routes
    server = ariane_wire.server()
    add_RouteServiceServicer_to_server(known, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    known.address = f"127.0.0.1:{port}"
    yield known
    await server.stop(None)


@pytest.fixture
async def producer(world, hanging):
    """One that knows the routes of both topics; its name server hangs from now on."""
    async with Producer(hanging.address, settings=PATIENT) as running:
        for topic in ("orders", "bills"):
            await running.send(Message(topic, b"first"))
        hanging.answers.clear()
        world.brokers["broker-a"].calls.clear()
        yield running
        hanging.answers.set()


async def test_a_refusal_holds_up_no_other_topic_while_name_servers_hang(
    world, producer, make_status
):
    broker = world.brokers["broker-a"]
    refused = make_status(grpc.StatusCode.NOT_FOUND, "TOPIC_NOT_FOUND")
    broker.script.append([refused])
    async with asyncio.timeout(60):
        bill = producer.send_nowait(Message("bills", b"bill"))
        await broker.wait_called(1)
        await producer.send(Message("orders", b"order"))
        await bill

    assert sorted(broker.bodies) == [b"bill", b"first", b"first", b"order"]


async def test_refusals_under_a_route_that_is_asked_for_are_not_the_last(
    world, producer, make_status
):
    broker = world.brokers["broker-a"]
    refused = make_status(grpc.StatusCode.NOT_FOUND, "TOPIC_NOT_FOUND")
    broker.script.extend([[refused]] * 5)
    async with asyncio.timeout(60):
        await producer.send(Message("bills", b"bill"))

    assert len(broker.calls) == 6


async def test_refusals_after_an_answer_are_few(world, hanging, producer, make_status):
    hanging.answers.set()
    broker = world.brokers["broker-a"]
    refused = make_status(grpc.StatusCode.NOT_FOUND, "TOPIC_NOT_FOUND")
    broker.script.extend([[refused]] * 5)
    with pytest.raises(errors.SendError) as caught:
        await producer.send(Message("bills", b"bill"))

    assert caught.value.reason == "TOPIC_NOT_FOUND"
    assert len(broker.calls) == 3
