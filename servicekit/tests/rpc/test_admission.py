from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_servicekit import Call, ServiceError
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.admission import Admission, Phase

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
GET_ROUTE = "/ariane.namesrv.v1.RouteService/GetRoute"


async def refused(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def health_of(channel, service="") -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def test_calls_are_refused_until_recovery_is_done(probe_app, serve, details_of, monkeypatch):
    ends = []
    monkeypatch.setattr(CallMetrics, "end", lambda *ended: ends.append(ended[2:]))

    async def get_route(request, context):
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    probe_app.go_on_recovering.clear()
    address = free_address()

    async def live():
        async with serve(probe_app, listen=address) as probe:
            assert await health_of(probe.channel) == SERVING
            await probe.route.GetRoute(GetRouteRequest())

    async with grpc.aio.insecure_channel(address) as channel:
        living = asyncio.create_task(live())
        await probe_app.recovering.wait()
        error = await refused(RouteServiceStub(channel).GetRoute(GetRouteRequest()))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert details_of(error)[ErrorInfo][0].reason == "SERVICE_STARTING"
        # Callers choose the names of unknown methods: there may be any number.
        for name in ("/made.up/Name", '/made.up/"{x'):
            await refused(channel.unary_unary(name)(b""))
        assert ends[-2:] == [("_OTHER", grpc.StatusCode.UNAVAILABLE)] * 2
        assert await health_of(channel) == NOT_SERVING
        assert await health_of(channel, "ariane.namesrv.v1.RouteService") == NOT_SERVING
        probe_app.go_on_recovering.set()
        await living
    assert probe_app.steps == ["recover", "serve_started", "drain", "stop"]


async def test_draining_refuses_all_but_what_the_service_leaves_open(probe_app, serve, details_of):
    async def get_route(request, context):
        return GetRouteResponse()

    async def list_topics(request, context):
        return ListTopicsResponse()

    probe_app.methods = {"GetRoute": get_route, "ListTopics": list_topics}
    probe_app.open_while_draining = (GET_ROUTE,)
    probe_app.go_on_draining.clear()

    async def live():
        async with serve(probe_app) as probe:
            addresses.set_result(probe.address)

    addresses = asyncio.get_running_loop().create_future()
    living = asyncio.create_task(live())
    address = await addresses
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub = RouteServiceStub(channel)
        await probe_app.draining.wait()
        await stub.GetRoute(GetRouteRequest())
        error = await refused(stub.ListTopics(ListTopicsRequest()))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert details_of(error)[ErrorInfo][0].reason == "SERVICE_DRAINING"
        assert await health_of(channel) == NOT_SERVING
        probe_app.go_on_draining.set()
        await living


async def test_calls_in_work_end_within_the_grace(probe_app, serve):
    begun = asyncio.Event()

    async def get_route(request, context):
        begun.set()
        await asyncio.sleep(0.2)
        probe_app.steps.append("answer")
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    async with AsyncExitStack() as channels:
        async with serve(probe_app) as probe:
            channel = grpc.aio.insecure_channel(str(probe.address))
            await channels.enter_async_context(channel)
            stub = RouteServiceStub(channel)
            call = asyncio.ensure_future(stub.GetRoute(GetRouteRequest()))
            await begun.wait()
        await call
    assert probe_app.steps == ["recover", "serve_started", "drain", "answer", "stop"]


async def test_more_calls_than_the_limit_are_refused_with_a_wait(probe_app, serve, details_of):
    release = asyncio.Event()
    in_work = asyncio.Semaphore(0)

    async def get_route(request, context):
        in_work.release()
        await release.wait()
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app, concurrent_calls_max=2) as probe:
        held = [asyncio.ensure_future(probe.route.GetRoute(GetRouteRequest())) for _ in range(2)]
        await in_work.acquire()
        await in_work.acquire()
        error = await refused(probe.route.GetRoute(GetRouteRequest()))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = details_of(error)
        assert details[ErrorInfo][0].reason == "SERVICE_BUSY"
        assert details[RetryInfo][0].retry_delay.ToMilliseconds() == 200
        assert await health_of(probe.channel) == SERVING
        release.set()
        await asyncio.gather(*held)
        await probe.route.GetRoute(GetRouteRequest())


async def test_any_number_of_calls_gets_answers_or_reasons(probe_app, serve, details_of):
    async def get_route(request, context):
        await asyncio.sleep(0)
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with serve(probe_app, concurrent_calls_max=64) as probe, AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(str(probe.address), own))
            for _ in range(10)
        ]
        stubs = [RouteServiceStub(channel) for channel in channels]
        calls = [stub.GetRoute(GetRouteRequest()) for stub in stubs for _ in range(200)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    # None ends as gRPC's own "Stream removed" or as cancelled, which tells a client nothing.
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(errors) < len(outcomes)
    assert {details_of(error)[ErrorInfo][0].reason for error in errors} <= {"SERVICE_BUSY"}


async def test_a_cancelled_call_gives_its_place_back(probe_app, serve):
    begun = asyncio.Event()
    ended = asyncio.Event()

    async def get_route(request, context):
        if request.topic:
            return GetRouteResponse()
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app, concurrent_calls_max=1) as probe:
        call = probe.route.GetRoute(GetRouteRequest())
        waiting = asyncio.ensure_future(call)
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ended.wait()
        await probe.route.GetRoute(GetRouteRequest(topic="orders"))


class ContextOfCall:
    def __init__(self, remaining_s):
        self.remaining_s = remaining_s

    def time_remaining(self):
        return self.remaining_s

    def peer(self):
        return "ipv4:10.0.0.1:40000"


@pytest.mark.parametrize(
    ("remaining_s", "begun"), [(None, True), (5.0, True), (0, False), (-1, False)]
)
async def test_a_call_whose_deadline_has_passed_does_no_work(remaining_s, begun):
    admission = Admission(concurrent_calls_max=1, open_while_draining=())
    admission.phase = Phase.SERVING
    call = Call("/a.B/C", "req-1", ContextOfCall(remaining_s))

    if begun:
        peer = admission.enter(call)
        assert admission.call_count == 1
        admission.leave(peer)
    else:
        with pytest.raises(ServiceError) as caught:
            admission.enter(call)
        assert caught.value.row.name == "DEADLINE_PASSED"
    assert admission.call_count == 0


class ContextOfPeer(ContextOfCall):
    def __init__(self, peer):
        super().__init__(None)
        self._peer = peer

    def peer(self):
        return self._peer


async def test_connections_and_hosts_have_shares_and_give_them_back():
    admission = Admission(concurrent_calls_max=100, open_while_draining=())
    admission.phase = Phase.SERVING

    def begin(peer):
        call = Call("/a.B/C", "req-1", ContextOfPeer(peer))
        return admission.enter(call)

    def is_refused(peer):
        with pytest.raises(ServiceError) as caught:
            begin(peer)
        assert caught.value.row.name == "SERVICE_BUSY"
        return caught.value.message

    calls = [begin(f"ipv4:10.0.0.1:{1 + number // 25}") for number in range(75)]
    assert "connection" in is_refused("ipv4:10.0.0.1:1")
    assert "host" in is_refused("ipv4:10.0.0.1:9")
    calls += [begin("ipv6:[::1]:1"), begin("ipv4:10.0.0.2:1")]
    assert admission.call_count == 77
    for peer in calls:
        admission.leave(peer)
    assert admission.call_count == 0
    begin("ipv4:10.0.0.1:1")


async def test_a_host_of_ipv6_has_one_share_whatever_addresses_it_takes():
    admission = Admission(concurrent_calls_max=100, open_while_draining=())
    admission.phase = Phase.SERVING
    for number in range(75):
        peer = f"ipv6:%5B2001:db8:0:7::{number}%5D:1"
        admission.enter(Call("/a.B/C", "req-1", ContextOfPeer(peer)))
    with pytest.raises(ServiceError, match="host"):
        admission.enter(Call("/a.B/C", "req-1", ContextOfPeer("ipv6:%5B2001:db8:0:7:abcd::1%5D:1")))
    admission.enter(Call("/a.B/C", "req-1", ContextOfPeer("ipv6:%5B2001:db8:0:8::1%5D:1")))
