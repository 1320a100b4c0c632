from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import ariane_wire
from ariane_servicekit.rpc.health import HealthServicer
from ariane_wire.server.host_places import HostPlaces

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


@pytest.fixture
async def health():
    servicer = HealthServicer(["a.B"])
    server = ariane_wire.server()
    servicer.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield servicer, health_pb2_grpc.HealthStub(channel), server
    await server.stop(None)


def watch(stub, service=""):
    return stub.Watch(health_pb2.HealthCheckRequest(service=service))


async def next_status(stream):
    async with asyncio.timeout(60):
        return (await stream.read()).status


async def test_check_answers_for_the_process_and_each_service(health):
    servicer, stub, _ = health
    for serving, status in ((False, NOT_SERVING), (True, SERVING), (False, NOT_SERVING)):
        servicer.set_serving(serving)
        for name in ("", "a.B"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == status
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Check(health_pb2.HealthCheckRequest(service="a.C"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def is_refused(stream):
    with suppress(grpc.aio.AioRpcError):
        await next_status(stream)
        return False
    return await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_watches_are_bounded_and_who_leaves_makes_room(health):
    """Strangers may watch, and are counted nowhere else: each of their streams costs memory."""
    servicer, stub, _ = health
    servicer._watches = HostPlaces(4, 3)
    held = [watch(stub), watch(stub), watch(stub, "a.C")]
    for stream in held:
        await next_status(stream)
    assert await is_refused(watch(stub))
    # Another host has room yet, and single questions are always answered.
    assert servicer._watches.enter("ipv4:10.0.0.1")
    assert not servicer._watches.enter("ipv4:10.0.0.2")
    servicer._watches.leave("ipv4:10.0.0.1")
    await stub.Check(health_pb2.HealthCheckRequest())
    held.pop().cancel()
    async with asyncio.timeout(60):
        while await is_refused(watch(stub)):
            pass
    servicer.close()


async def test_watches_see_changes_also_when_another_watch_leaves(health):
    servicer, stub, _ = health
    first, second, stranger = watch(stub, "a.B"), watch(stub, "a.B"), watch(stub, "a.C")
    assert await next_status(first) == NOT_SERVING
    assert await next_status(second) == NOT_SERVING
    assert await next_status(stranger) == SERVICE_UNKNOWN
    first.cancel()
    servicer.set_serving(True)
    assert await next_status(second) == SERVING
    servicer.set_serving(False)
    assert await next_status(second) == NOT_SERVING


async def test_closing_ends_watches_so_that_the_server_need_not_wait(health):
    servicer, stub, server = health
    servicer.set_serving(True)
    statuses = aiter(watch(stub))  # unlike read(), it keeps what came with the end of the call
    async with asyncio.timeout(60):
        assert (await anext(statuses)).status == SERVING
        servicer.close()
        assert [answer.status async for answer in statuses] == [NOT_SERVING]
        await server.stop(3600)


async def test_a_close_while_an_answer_is_on_its_way_is_still_told():
    servicer = HealthServicer(["a.B"])
    servicer.set_serving(True)
    answers = servicer._answers(health_pb2.HealthCheckRequest(service=""))
    assert (await anext(answers)).status == SERVING
    servicer.close()
    assert [answer.status async for answer in answers] == [NOT_SERVING]


async def test_a_condition_is_told_by_its_name_while_the_process_serves():
    holds = False
    servicer = HealthServicer(["a.B"], {"in-sync": lambda: holds})
    asked = health_pb2.HealthCheckRequest(service="in-sync")
    answers = servicer._answers(asked)
    holds = True
    assert (await anext(answers)).status == NOT_SERVING
    servicer.set_serving(True)
    assert (await anext(answers)).status == SERVING
    holds = False
    assert (await servicer.Check(asked, None)).status == NOT_SERVING
    assert (await servicer.Check(health_pb2.HealthCheckRequest(), None)).status == SERVING
    async with asyncio.timeout(60):
        assert (await anext(answers)).status == NOT_SERVING
    servicer.close()
