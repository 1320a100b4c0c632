"""What admin makes of errors of the processes that it asked."""

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.servicers.public_errors import public_error
from ariane_sdk.net.status import ERROR_DOMAIN, error_from_status
from ariane_servicekit.error_table import ERROR_TABLE


def told(reason):
    """What becomes of a broker's error with a reason, told as brokers tell it."""
    row = ERROR_TABLE[ErrorReason.Value(f"ERROR_REASON_{reason}")]
    info = Any()
    info.Pack(ErrorInfo(reason=reason, domain=ERROR_DOMAIN))
    status = Status(code=row.code.value[0], message=f"why. {row.hint}", details=[info])
    public = public_error(error_from_status(status, peer="broker a"))
    return public.row.name, public.message


@pytest.mark.parametrize(
    "reason", ["QUOTA_EXCEEDED", "STORE_FULL", "TOO_FEW_IN_SYNC", "GROUP_PAUSED", "SERVICE_BUSY"]
)
def test_a_refusal_keeps_its_reason_and_is_no_silence(reason):
    assert told(reason) == (reason, "broker a: why")


@pytest.mark.parametrize("reason", ["SERVICE_STARTING", "STORE_POISONED", "BROKER_NOT_PRIMARY"])
def test_a_service_that_cannot_serve_is_unreachable(reason):
    assert told(reason)[0] == "PEER_UNREACHABLE"
