"""The reason of a failed call, read in one place for all calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError
from grpc_status import rpc_status

_CODES: Final[dict[int, StatusCode]] = {code.value[0]: code for code in StatusCode}


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """The reason and text of a failed call."""

    code: StatusCode
    message: str
    reason: str = ""
    """Such as ``"TRANSACTION_DECIDED"``; empty if the network failed before a service answered."""
    metadata: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """As one line for a log."""
        return f"{self.reason or self.code.name}: {self.message}"


def failure_of(error: AioRpcError) -> RpcFailure:
    """Read a failed call."""
    message = error.details() or ""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is None:
        return RpcFailure(error.code(), message)
    return failure_of_status(status)


def failure_of_status(status: Status) -> RpcFailure:
    """Read the failure of one item of a call."""
    code = _CODES.get(status.code, StatusCode.UNKNOWN)
    for detail in status.details:
        named = ErrorInfo()
        if detail.Unpack(named):
            return RpcFailure(code, status.message, named.reason, dict(named.metadata))
    return RpcFailure(code, status.message)
