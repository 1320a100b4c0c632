"""Calls through a real server: interceptor, errors and streams."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RequestInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from structlog.testing import capture_logs

from ariane.broker.v1.client_service_pb2 import AttachRequest, AttachResponse, HeartbeatAccepted
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.namesrv.v1.route_pb2 import Route
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane_servicekit import ServiceError, current_call, field_invalid
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.security.caller import CallerKind

GET_ROUTE = "/ariane.namesrv.v1.RouteService/GetRoute"
ATTACH = "/ariane.broker.v1.ClientService/Attach"
BEAT = AttachResponse(heartbeat_accepted=HeartbeatAccepted())


def reason_of(details) -> str:
    [error_info] = details[ErrorInfo]
    assert error_info.domain == "ariane.mq"
    return error_info.reason


async def refused(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def refused_stream(stream) -> grpc.aio.AioRpcError:
    async def read_all():
        async for _ in stream:
            pass

    return await refused(read_all())


async def test_a_servicer_knows_who_calls(probe_app, serve):
    seen = []

    async def get_route(request, context):
        seen.append(current_caller())
        await asyncio.sleep(0)
        seen.append(current_caller())
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        await probe.route.GetRoute(GetRouteRequest(topic="orders"))
    first, second = seen
    assert first is second
    assert (first.kind, first.name, first.address) == (CallerKind.ANONYMOUS, "", "127.0.0.1")
    assert current_caller() is None


async def test_coroutines_and_plain_functions_answer(probe_app, serve):
    async def get_route(request, context):
        return GetRouteResponse(route=Route(topic=request.topic))

    def list_topics(request, context):
        return ListTopicsResponse(topics=[request.cluster_name])

    probe_app.methods = {"GetRoute": get_route, "ListTopics": list_topics}
    async with serve(probe_app) as probe:
        answer = await probe.route.GetRoute(GetRouteRequest(topic="orders"))
        assert answer.route.topic == "orders"
        assert (await probe.route.ListTopics(ListTopicsRequest(cluster_name="c"))).topics == ["c"]


async def test_a_service_error_leaves_as_status_with_the_request_id(probe_app, serve, details_of):
    async def get_route(request, context):
        raise field_invalid("topic", "is required")

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        error = await refused(
            probe.route.GetRoute(GetRouteRequest(), metadata=(("x-request-id", "req-1"),))
        )
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "topic is required. Correct the named field of the request."
    details = details_of(error)
    assert reason_of(details) == "FIELD_INVALID"
    assert details[RequestInfo][0].request_id == "req-1"


async def test_an_insane_request_id_is_replaced(probe_app, serve, details_of):
    async def get_route(request, context):
        raise field_invalid("topic", current_call().request_id)

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        for insane in ("a b", "x" * 65, "{}"):
            error = await refused(
                probe.route.GetRoute(GetRouteRequest(), metadata=(("x-request-id", insane),))
            )
            assert insane not in error.details()
            assert len(details_of(error)[RequestInfo][0].request_id) == 16


async def test_an_unknown_exception_is_internal_and_tells_nothing(probe_app, serve, details_of):
    async def get_route(request, context):
        raise KeyError("password 1234")

    probe_app.methods = {"GetRoute": get_route}
    with capture_logs() as lines:
        async with serve(probe_app) as probe:
            error = await refused(probe.route.GetRoute(GetRouteRequest()))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "1234" not in error.details()
    assert reason_of(details_of(error)) == "INTERNAL_FAULT"
    assert {"unexpected_exception", "call_failed"} <= {line["event"] for line in lines}


async def test_rules_of_the_service_translate_its_engine(probe_app, serve, details_of):
    async def get_route(request, context):
        raise OSError(28, "No space left")

    probe_app.error_rules = {
        OSError: lambda error: ServiceError(ErrorReason.ERROR_REASON_STORE_FULL, error.strerror)
    }
    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        error = await refused(probe.route.GetRoute(GetRouteRequest()))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details().startswith("No space left. Free disk space")


async def test_methods_without_code_are_not_available(probe_app, serve, details_of):
    async with serve(probe_app) as probe:
        for failed in (
            await refused(probe.route.GetRoute(GetRouteRequest())),
            await refused(probe.client.Attach().read()),
        ):
            assert failed.code() is grpc.StatusCode.UNIMPLEMENTED
            assert reason_of(details_of(failed)) == "FEATURE_NOT_AVAILABLE"


@pytest.mark.parametrize("method", ["/no.such.Service/Method", "/ariane.namesrv.v1.RouteService/X"])
async def test_unknown_methods_have_an_error_info_too(probe_app, serve, details_of, method):
    async with serve(probe_app) as probe:
        error = await refused(probe.channel.unary_unary(method)(b"anything"))
        # Nothing is written: grpcio says INTERNAL where a call is refused before it has written.
        stream = await refused(probe.channel.stream_stream(method)().read())
    for failed in (error, stream):
        assert failed.code() is grpc.StatusCode.UNIMPLEMENTED
        assert reason_of(details_of(failed)) == "FEATURE_NOT_AVAILABLE"


async def test_a_request_that_is_no_message_is_an_invalid_field(probe_app, serve, details_of):
    async def attach(requests, context):
        async for _ in requests:
            yield BEAT

    probe_app.methods = {"GetRoute": attach, "Attach": attach}
    async with serve(probe_app) as probe:
        unary = await refused(probe.channel.unary_unary(GET_ROUTE)(b"\xff\xff\xff"))
        stream = await refused_stream(probe.channel.stream_stream(ATTACH)(iter([b"\xff\xff\xff"])))
    for failed in (unary, stream):
        assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert reason_of(details_of(failed)) == "FIELD_INVALID"


@pytest.mark.parametrize("style", ["generator", "writer"])
async def test_a_stream_answers_and_fails_like_a_unary_call(probe_app, serve, details_of, style):
    async def generate(requests, context):
        async for _ in requests:
            yield BEAT
        raise ServiceError(ErrorReason.ERROR_REASON_SERVICE_DRAINING, "the broker stops")

    async def write(requests, context):
        async for _ in requests:
            await context.write(BEAT)
        raise ServiceError(ErrorReason.ERROR_REASON_SERVICE_DRAINING, "the broker stops")

    probe_app.methods = {"Attach": generate if style == "generator" else write}
    answers = []
    async with serve(probe_app) as probe:

        async def read_all():
            async for answer in probe.client.Attach(iter([AttachRequest()] * 3)):
                answers.append(answer)  # noqa: PERF401 - those before the failure count too

        error = await refused(read_all())
    assert answers == [BEAT] * 3
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(details_of(error)) == "SERVICE_DRAINING"


async def test_a_cancelled_stream_closes_its_generator(probe_app, serve):
    closed = asyncio.Event()

    async def attach(requests, context):
        try:
            yield BEAT
            await asyncio.sleep(3600)
        finally:
            closed.set()

    probe_app.methods = {"Attach": attach}
    async with serve(probe_app) as probe:
        stream = probe.client.Attach(iter([AttachRequest()]))
        assert await stream.read() == BEAT
        stream.cancel()
        async with asyncio.timeout(60):
            await closed.wait()


async def test_the_call_is_known_to_tasks_that_it_starts(probe_app, serve):
    async def name_of_call():
        return current_call().method

    async def get_route(request, context):
        topic = await asyncio.create_task(name_of_call())
        return GetRouteResponse(route=Route(topic=topic))

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        assert (await probe.route.GetRoute(GetRouteRequest())).route.topic == GET_ROUTE
    assert current_call() is None


async def test_oversized_requests_and_metadata_are_refused(probe_app, serve):
    async def get_route(request, context):
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app, receive_bytes_max=1 << 16) as probe:
        large = GetRouteRequest(topic="x" * (1 << 16))
        error = await refused(probe.route.GetRoute(large))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        metadata = tuple((f"key-{number}", "v" * 1000) for number in range(64))
        error = await refused(probe.route.GetRoute(GetRouteRequest(), metadata=metadata))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await probe.route.GetRoute(GetRouteRequest())


async def test_refusals_beyond_the_budget_are_not_logged(probe_app, serve, monkeypatch):
    monkeypatch.setattr("ariane_servicekit.rpc.refusals.REFUSALS_LOGGED_PER_S", 0)
    async with serve(probe_app) as probe:
        with capture_logs() as lines:
            error = await refused(probe.route.GetRoute(GetRouteRequest()))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "call_failed" not in {line["event"] for line in lines}


async def test_a_foreign_service_may_abort_by_itself(probe_app, serve):
    async with serve(probe_app) as probe:
        health = health_pb2_grpc.HealthStub(probe.channel)
        error = await refused(health.Check(health_pb2.HealthCheckRequest(service="unknown")))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_metrics_see_how_calls_end(probe_app, serve, monkeypatch):
    ends = []
    monkeypatch.setattr(
        CallMetrics, "end", lambda self, begin, method, code: ends.append((method, code.name))
    )
    begun = asyncio.Event()

    async def get_route(request, context):
        if request.topic == "held":
            begun.set()
            await asyncio.sleep(3600)
        if request.topic == "unnamed":
            raise field_invalid("topic", "is required")
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}
    async with serve(probe_app) as probe:
        await probe.route.GetRoute(GetRouteRequest())
        await refused(probe.route.GetRoute(GetRouteRequest(topic="unnamed")))
        held = probe.route.GetRoute(GetRouteRequest(topic="held"))
        waiting = asyncio.ensure_future(held)
        await begun.wait()
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await refused(probe.channel.unary_unary("/made.up/Name")(b""))
    # What is cancelled takes a turn to end, in which another call may end.
    assert sorted(ends) == [
        (GET_ROUTE, "CANCELLED"),
        (GET_ROUTE, "INVALID_ARGUMENT"),
        (GET_ROUTE, "OK"),
        ("_OTHER", "UNIMPLEMENTED"),
    ]
