"""Errors of blocking calls, as the SDK names them."""

from __future__ import annotations

from typing import cast

import grpc
from grpc.aio import AioRpcError

from ariane_sdk.errors import CallError
from ariane_sdk.translation import error_from_rpc


def call_error(failure: grpc.RpcError, peer: str) -> CallError:
    """The error of a blocking call.

    Args:
        failure: gRPC's error; errors of sync and async calls have the same methods.
        peer: The callee, for the text.
    """
    return error_from_rpc(cast("AioRpcError", failure), peer=peer)
