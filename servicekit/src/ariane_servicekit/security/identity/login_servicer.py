"""``LoginService``: users prove who they are."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from typing_extensions import override

from ariane.common.v1 import login_service_pb2 as login_pb
from ariane.common.v1.login_service_pb2_grpc import (
    LoginServiceServicer,
    add_LoginServiceServicer_to_server,
)
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.security.identity.logins import Logins
from ariane_wire import Identity


class LoginServicer(LoginServiceServicer):
    """Translates logins."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    @override
    async def BeginLogin(
        self, request: login_pb.BeginLoginRequest, context: aio.ServicerContext[Any, Any]
    ) -> login_pb.BeginLoginResponse:
        return login_pb.BeginLoginResponse(server_nonce=self._logins.begin(_identity(context)))

    @override
    async def FinishLogin(
        self, request: login_pb.FinishLoginRequest, context: aio.ServicerContext[Any, Any]
    ) -> login_pb.FinishLoginResponse:
        identity = _identity(context)
        match request.WhichOneof("proof"):
            case "key":
                login = await self._logins.finish_by_key(identity, request.key)
            case "bearer_token":
                login = await self._logins.finish_by_token(identity, request.bearer_token)
            case _:
                raise field_invalid("proof", "is missing")
        lifetime = Duration()
        lifetime.FromMilliseconds(self._logins.left_ms(login))
        return login_pb.FinishLoginResponse(
            user=login.caller.name,
            lifetime=lifetime,
            session_token=self._logins.tokens.give(login),
        )


def login_rpc_service(logins: Logins) -> RpcService:
    """The service, for a process's server."""
    descriptor = login_pb.DESCRIPTOR.services_by_name["LoginService"]
    return RpcService(descriptor, add_LoginServiceServicer_to_server, LoginServicer(logins))


def _identity(context: aio.ServicerContext[Any, Any]) -> Identity:
    identity: Identity = context.identity()  # type: ignore[attr-defined]  # Of our transport.
    return identity
