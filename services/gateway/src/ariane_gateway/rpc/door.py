"""The door: who calls, and whether the call is signed as it should be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from grpc import aio

from apache.rocketmq.v2.definition_pb2 import Code
from ariane_gateway.access_keys import AccessKeys
from ariane_gateway.brokers.acting import USER
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.caller import Caller
from ariane_gateway.rpc.signature import SignatureRefused, signer_of
from ariane_gateway.rpc.statuses import Illegal, status_of

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

CLIENT_ID: Final = "x-mq-client-id"
CLIENT_ID_LENGTH_MAX: Final = 255
WORD_LENGTH_MAX: Final = 64
"""Of a language or a version; more is cut off."""

CALL_S_DEFAULT: Final = 60.0
"""How long a caller waits that names no deadline."""


class Door:
    """Lets calls in."""

    def __init__(self, keys: AccessKeys, now: Callable[[], datetime]) -> None:
        self._keys = keys
        self._now = now

    def caller(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """The client of a call.

        Raises:
            Illegal: CLIENT_ID_REQUIRED, or UNAUTHORIZED.
        """
        headers = {name: _text(value) for name, value in context.invocation_metadata() or ()}
        client_id = headers.get(CLIENT_ID, "")
        if not client_id:
            raise Illegal(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
        if len(client_id) > CLIENT_ID_LENGTH_MAX or not client_id.isprintable():
            raise Illegal(
                Code.CLIENT_ID_REQUIRED,
                f"{CLIENT_ID}: at most {CLIENT_ID_LENGTH_MAX} printable characters",
            )
        user = ""
        if self._keys.asked:
            try:
                user = signer_of(headers, self._keys.all, self._now())
            except SignatureRefused as refused:
                raise Illegal(Code.UNAUTHORIZED, str(refused)) from None
        USER.set(user)
        # None if the caller set no deadline, although the stub's type has no None.
        remaining_s: float | None = context.time_remaining()
        return Caller(
            client_id,
            headers.get("x-mq-language", "")[:WORD_LENGTH_MAX],
            headers.get("x-mq-client-version", "")[:WORD_LENGTH_MAX],
            _address_of(context.peer()),
            CALL_S_DEFAULT if remaining_s is None else remaining_s,
            user,
        )

    async def answer(
        self,
        work: Callable[[RequestT, Caller], Awaitable[AnswerT]],
        request: RequestT,
        context: aio.ServicerContext[Any, Any],
        make: Callable[..., AnswerT],
    ) -> AnswerT:
        """The answer of a call; one that only has a status when the call is refused."""
        try:
            return await work(request, self.caller(context))
        except (Refused, Illegal) as error:
            return make(status=status_of(error))


def _address_of(peer: str) -> str:
    """A caller's address, without the kind that gRPC writes before it."""
    return unquote(peer.partition(":")[2]) or peer


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("ascii", "replace")
