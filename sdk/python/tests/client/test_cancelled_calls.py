"""Calls that end as cancelled although nobody here cancelled them: whoever was asked gave up.

A server cancels a call when its own deadline passes a moment before the client's does, as under
load, or when it ends. That is no answer, as a lost connection is none.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from random import Random

import grpc
import pytest

import ariane_wire
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)
from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.session import Session
from ariane_sdk.runtime.clock import SystemClock

QUICK = {"call_timeout_s": 30.0, "send_timeout_s": 60.0, "repeat_delay_s_max": 0.1}
GIVEN_UP = [grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.ABORTED]


class GivesUp(RouteServiceServicer):
    """Resets the stream of every call, as a server does whose deadline has passed."""

    def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        context.cancel()


@pytest.fixture
def address_that_gives_up():
    server = grpc.server(ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    add_RouteServiceServicer_to_server(GivesUp(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


class Silent(RouteServiceServicer):
    """Hears questions and answers none."""

    def __init__(self):
        self.heard = asyncio.Event()

    async def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        self.heard.set()
        await asyncio.Event().wait()


@pytest.fixture
async def silent_name_server():
    """Its address, and what is set when it is asked."""
    silent = Silent()
    server = ariane_wire.server()
    add_RouteServiceServicer_to_server(silent, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}", silent.heard
    await server.stop(None)


@pytest.fixture
async def make_session():
    sessions = []

    def make(*addresses, seed=0):
        session = Session(addresses, timeout_s=60.0, clock=SystemClock(), random=Random(seed))
        sessions.append(session)
        return session

    yield make
    for session in sessions:
        await session.close()


async def test_a_name_server_that_gives_a_call_up_is_left_for_the_next(
    world, address_that_gives_up, make_session
):
    for seed in range(4):
        session = make_session(address_that_gives_up, world.name_servers, seed=seed)

        route = await session.name_servers.get_route("orders")

        assert [broker.broker_name for broker in route.brokers] == ["broker-a"]
        assert (await session.name_servers._in_turn())[0] == world.name_servers


@pytest.mark.parametrize("code", GIVEN_UP)
async def test_so_is_one_whose_call_breaks_in_other_ways(world, make_session, code):
    second = await world.add_name_server()
    second.refusal = code
    for seed in range(4):
        session = make_session(second.address, world.name_servers, seed=seed)

        assert (await session.name_servers.get_route("orders")).brokers

    assert second.asked


async def test_alone_it_is_a_name_server_that_did_not_answer(address_that_gives_up, make_session):
    session = make_session(address_that_gives_up)

    with pytest.raises(errors.NameServersUnreachable, match=address_that_gives_up) as caught:
        await session.name_servers.get_route("orders")

    assert caught.value.retriable
    assert not caught.value.outcome_unknown


async def test_messages_wait_for_a_name_server_that_gives_calls_up(world):
    world.name_server.refusal = grpc.StatusCode.CANCELLED
    async with Producer(world.name_servers) as producer:
        send = producer.send_nowait(Message("orders", b"one"))
        await world.name_server.heard.wait()
        world.name_server.refusal = None
        assert (await send).queue_offset == 0


async def test_a_cancelled_call_asks_no_other_broker(world, silent_name_server, make_session):
    address, heard = silent_name_server
    session = make_session(address, world.name_servers, seed=1)
    assert (await session.name_servers._in_turn())[0] == address

    question = asyncio.create_task(session.name_servers.get_route("orders"))
    await asyncio.wait_for(heard.wait(), 60)
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question

    assert world.name_server.asked == []


async def test_a_send_that_is_given_up_is_repeated_and_stored_once(world):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.CANCELLED)
    async with Producer(world.name_servers, settings=ProducerSettings(**QUICK)) as producer:
        await producer.send(Message("orders", b"one"))

    assert broker.bodies == [b"one"]
    first, second = (call.rows[0].sequence for call in broker.calls)
    assert first == second


async def test_what_became_of_it_is_not_known_where_it_is_not_repeated(world):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.CANCELLED)
    settings = ProducerSettings(**QUICK, idempotent=False, repeats_max=0)
    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("orders", b"one"))

    assert caught.value.outcome_unknown
    assert len(broker.calls) == 1


async def test_a_question_that_is_given_up_was_not_answered(address_that_gives_up, make_session):
    session = make_session(address_that_gives_up)
    stub = session.connections.routes(address_that_gives_up)

    with pytest.raises(errors.ServiceUnavailable, match="broker b: ") as caught:
        await answer_of(stub.GetRoute(GetRouteRequest(topic="orders"), timeout=60.0), "broker b")

    assert caught.value.retriable
    assert caught.value.outcome_unknown
