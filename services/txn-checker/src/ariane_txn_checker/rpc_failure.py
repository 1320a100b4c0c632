"""Why a call failed: the reason that the error bears, in one place for all calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.rpc.error_details_pb2 import ErrorInfo
from grpc import StatusCode
from grpc.aio import AioRpcError
from grpc_status import rpc_status


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """What is known of a failed call."""

    code: StatusCode
    message: str
    reason: str = ""
    """Such as ``"TRANSACTION_DECIDED"``; empty when the network failed and no service spoke."""
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
    for detail in status.details if status is not None else ():
        named = ErrorInfo()
        if detail.Unpack(named):
            return RpcFailure(error.code(), message, named.reason, dict(named.metadata))
    return RpcFailure(error.code(), message)
