import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk import ClusterClient, errors
from ariane_sdk.net import status as statuses
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import (
    ERROR_DOMAIN,
    REASON_ROWS,
    error_from_status,
)
from ariane_sdk.translation import error_from_rpc
from ariane_wire import insecure_channel


def packed(message):
    detail = Any()
    detail.Pack(message)
    return detail


def status_of(reason, *, domain=ERROR_DOMAIN, code=StatusCode.NOT_FOUND, **metadata):
    info = ErrorInfo(reason=reason, domain=domain, metadata=metadata)
    return Status(code=code.value[0], message=f"it is {reason}", details=[packed(info)])


def rpc_error(code, details="", status=None):
    trailing = Metadata()
    if status is not None:
        trailing.add("grpc-status-details-bin", status.SerializeToString())
    return AioRpcError(code, Metadata(), trailing, details)


def test_every_reason_of_the_contract_has_a_row():
    names = {name.removeprefix("ERROR_REASON_") for name, _ in ErrorReason.items()}

    assert names - {"UNSPECIFIED"} == set(REASON_ROWS)
    assert set(statuses._CLASSES) <= names


def test_an_error_comes_back_from_the_wire():
    for name, row in REASON_ROWS.items():
        error = error_from_status(status_of(name, topic="orders"), peer="broker-a")

        assert type(error) is row.error
        assert error.reason == name
        assert error.metadata == {"topic": "orders"}
        assert "broker-a" in str(error)


def test_the_wait_that_a_service_asks_for_is_kept():
    status = status_of("SERVICE_BUSY", code=StatusCode.RESOURCE_EXHAUSTED)
    status.details.append(packed(RetryInfo(retry_delay=Duration(nanos=250_000_000))))

    error = error_from_status(status, peer="broker-a")

    assert error.retry_after_s == 0.25
    assert error.retriable


def test_what_a_name_server_does_not_know_at_its_start_may_be_known_soon():
    status = status_of("ROUTE_NOT_FOUND", warming_up="true")

    assert error_from_status(status, peer="name server").retriable
    assert not error_from_status(status_of("ROUTE_NOT_FOUND"), peer="name server").retriable


def test_a_reason_of_tomorrow_is_an_error_with_an_unknown_outcome():
    error = error_from_status(status_of("MOON_IN_THE_WAY"), peer="broker-a")

    assert type(error) is errors.CallError
    assert error.reason == "MOON_IN_THE_WAY"
    assert error.outcome_unknown


def test_reasons_of_another_domain_are_not_ours():
    error = error_from_status(status_of("TOPIC_NOT_FOUND", domain="example.com"), peer="p")

    assert not isinstance(error, errors.TopicNotFound)


def test_bounds_come_with_an_offset_out_of_range():
    status = status_of("QUEUE_OFFSET_OUT_OF_RANGE", queue_offset="9", min="3", max="7")

    error = error_from_status(status, peer="broker-a")

    assert isinstance(error, errors.QueueOffsetOutOfRange)
    assert (error.min_queue_offset, error.max_queue_offset) == (3, 7)


def test_details_of_a_call_win_over_its_code():
    status = status_of("STORE_FULL", code=StatusCode.RESOURCE_EXHAUSTED)

    error = error_from_rpc(rpc_error(StatusCode.RESOURCE_EXHAUSTED, "x", status), peer="broker-a")

    assert error.reason == "STORE_FULL"
    assert not error.outcome_unknown


def test_broken_details_fall_back_to_the_code():
    error = rpc_error(StatusCode.NOT_FOUND)
    error.trailing_metadata().add("grpc-status-details-bin", b"\xff\xff\xff")

    assert error_from_rpc(error, peer="p").reason == "GRPC_NOT_FOUND"


@pytest.mark.parametrize(
    ("code", "details", "unknown", "kind"),
    [
        (StatusCode.UNAVAILABLE, "Socket closed", True, errors.ServiceUnavailable),
        (StatusCode.DEADLINE_EXCEEDED, "", True, errors.DeadlinePassed),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", True, errors.DeadlinePassed),
        (
            StatusCode.DEADLINE_EXCEEDED,
            "Stream removed (Deadline Exceeded)",
            True,
            errors.DeadlinePassed,
        ),
        (StatusCode.CANCELLED, "", True, errors.ServiceUnavailable),
        (StatusCode.CANCELLED, "CANCELLED", True, errors.ServiceUnavailable),
        (StatusCode.UNKNOWN, "", True, errors.CallError),
        (StatusCode.INVALID_ARGUMENT, "", False, errors.CallError),
        (StatusCode.UNIMPLEMENTED, "", False, errors.FeatureNotAvailable),
        (StatusCode.UNAUTHENTICATED, "", False, errors.AccessDenied),
    ],
)
def test_without_details_the_outcome_is_known_only_where_nothing_was_sent(
    code, details, unknown, kind
):
    error = error_from_rpc(rpc_error(code, details), peer="broker-a")

    assert type(error) is kind
    assert error.outcome_unknown is unknown
    if kind is errors.DeadlinePassed:
        assert str(error) == "broker-a: no answer in time"
    if code is StatusCode.CANCELLED:
        assert str(error) == "broker-a: gave the call up, without an answer"


async def test_a_call_that_never_left_has_surely_had_no_effect():
    async with insecure_channel("127.0.0.1:1") as channel:
        with pytest.raises(AioRpcError) as refused:
            await RouteServiceStub(channel).GetRoute(GetRouteRequest(topic="orders"))
    error = error_from_rpc(refused.value, peer="name server")

    assert type(error) is errors.ServiceUnavailable
    assert not error.outcome_unknown


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = {
        line.split("+-- ")[1].split()[0] for line in errors.__doc__.splitlines() if "+-- " in line
    }
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ArianeError)
    }

    assert drawn | {"ArianeError"} == defined


async def test_a_request_beyond_the_limit_says_what_to_do(cluster):
    """gRPC refuses it before a service could give a reason: its words must stay known."""
    async with ClusterClient(cluster.name_servers) as client:
        with pytest.raises(errors.RequestTooLarge, match="receive_bytes_max") as caught:
            await client.route("x" * (6 << 20))

    assert caught.value.metadata["limit_bytes"] == str(5 << 20)
    assert int(caught.value.metadata["size_bytes"]) > 6 << 20
    assert not caught.value.outcome_unknown
    assert not caught.value.retriable


async def test_metadata_beyond_the_limit_says_what_to_do(cluster):
    async with insecure_channel(cluster.name_servers) as channel:
        with pytest.raises(AioRpcError) as refused:
            await RouteServiceStub(channel).GetRoute(
                GetRouteRequest(topic="orders"), metadata=(("x", "v" * 17_000),)
            )
    error = error_from_rpc(refused.value, peer="name server")

    assert isinstance(error, errors.RequestTooLarge)
    assert "metadata_bytes_max" in str(error)


def test_a_copy_of_an_error_says_the_same_and_is_another():
    error = errors.ServiceUnavailable(
        "away",
        reason="SERVICE_DRAINING",
        outcome_unknown=True,
        retriable=True,
        retry_after_s=1.5,
        metadata={"broker": "b0"},
    )
    for kind in (errors.ServiceUnavailable, errors.SendError):
        copy = error_copy(error, kind)
        assert type(copy) is kind
        assert copy is not error
        assert str(copy) == "away"
        assert vars(copy) == vars(error)
