"""Identities for tests: a caller says who it is in its metadata, and is believed."""

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.identity.identify import acted_for

IDENTITY_KEY: Final = "x-test-identity"
"""Metadata key: ``user:NAME:CREDENTIAL``, ``member:KIND:NAME``, or else a wrong proof."""


def stated_identity(context: aio.ServicerContext[Any, Any]) -> Caller:
    """Find who makes a call: an ``Identify`` that believes.

    Raises:
        ServiceError: CREDENTIALS_INVALID.
    """
    told = dict(context.invocation_metadata() or ()).get(IDENTITY_KEY, "")
    return acted_for(_caller(str(told), context.peer()), context)


def _caller(told: str, peer: str) -> Caller:
    match told.split(":"):
        case [""]:
            return Caller(CallerKind.ANONYMOUS, peer)
        case ["user", name, credential_id]:
            return Caller(CallerKind.USER, peer, name, credential_id=credential_id)
        case ["member", kind, name]:
            return Caller(
                CallerKind.MEMBER, peer, name, member_kind=MemberKind(kind), cluster="test"
            )
    raise ServiceError(
        ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
        "no credentials that hold here came with the call",
    )


def as_user(name: str, credential_id: str = "") -> tuple[tuple[str, str]]:
    """Metadata of a user, who has logged in by the key of a credential or in another way."""
    return ((IDENTITY_KEY, f"user:{name}:{credential_id}"),)


def as_member(kind: MemberKind, name: str = "m") -> tuple[tuple[str, str]]:
    """Metadata of a member."""
    return ((IDENTITY_KEY, f"member:{kind.value}:{name}"),)


def identity_interceptors(metadata: tuple[tuple[str, str], ...]) -> list[aio.ClientInterceptor]:
    """Interceptors of a channel of grpcio that add metadata to each call."""

    class Unary(aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
            return await go_on(_with(details, metadata), request)

    class Answers(aio.UnaryStreamClientInterceptor):
        async def intercept_unary_stream(self, go_on: Any, details: Any, request: Any) -> Any:
            return await go_on(_with(details, metadata), request)

    class Streams(aio.StreamStreamClientInterceptor):
        async def intercept_stream_stream(self, go_on: Any, details: Any, requests: Any) -> Any:
            return await go_on(_with(details, metadata), requests)

    return [Unary(), Answers(), Streams()]


def _with(details: Any, metadata: tuple[tuple[str, str], ...]) -> Any:
    told = aio.Metadata(*(details.metadata or ()), *metadata)
    return details._replace(metadata=told)
