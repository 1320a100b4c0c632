"""The door: who calls, and whether the call is signed as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from grpc import aio

from apache.rocketmq.v2.definition_pb2 import Code
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_gateway.access_keys import AccessKeys
from ariane_gateway.brokers.acting import USER, acted_for
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.caller import Caller
from ariane_gateway.rpc.signature import SignatureRefused, Signer, signer_of
from ariane_gateway.rpc.statuses import Illegal, status_of
from ariane_servicekit import Call, ServiceError, current_call
from ariane_servicekit.security.identity.identify import note_proof

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

CLIENT_ID: Final = "x-mq-client-id"
CLIENT_ID_LENGTH_MAX: Final = 255
WORD_LENGTH_MAX: Final = 64
"""Of a language or a version; more is cut off."""

CALL_S_DEFAULT: Final = 60.0
"""How long a caller waits that names no deadline."""


class _Stay(NamedTuple):
    """A call that lasts, and what it is signed with."""

    call: Call
    access_key: str
    user: str


_NOBODY: Final = Signer("", "")


class Door:
    """Lets calls in."""

    def __init__(
        self,
        keys: AccessKeys | None,
        now: Callable[[], datetime],
        is_of_another: Callable[[str, str], bool],
    ) -> None:
        """Let nobody in yet.

        Args:
            keys: None where calls need no signature.
            now: The clock.
            is_of_another: Whether a client id is that of a living client of another user.
        """
        self._keys = keys
        self._now = now
        self._is_of_another = is_of_another
        self._staying: dict[asyncio.Task[Any], _Stay] = {}

    def caller(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """The client of a call.

        Raises:
            Illegal: CLIENT_ID_REQUIRED, UNAUTHORIZED, or FORBIDDEN for another user's client id;
                HA_NOT_AVAILABLE while nobody knows which keys hold.
        """
        metadata = dict(context.invocation_metadata() or ())
        client_id = _text(metadata.get(CLIENT_ID, ""))
        if not client_id:
            raise Illegal(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
        if len(client_id) > CLIENT_ID_LENGTH_MAX or not client_id.isprintable():
            raise Illegal(
                Code.CLIENT_ID_REQUIRED,
                f"{CLIENT_ID}: at most {CLIENT_ID_LENGTH_MAX} printable characters",
            )
        signer = _NOBODY
        if self._keys is not None:
            if not self._keys.known:
                raise Illegal(Code.HA_NOT_AVAILABLE, "admin has not said yet which keys hold")
            try:
                headers = {name: _text(value) for name, value in metadata.items()}
                signer = signer_of(headers, self._keys.find, self._now())
            except SignatureRefused as refused:
                raise Illegal(Code.UNAUTHORIZED, str(refused)) from None
            if self._is_of_another(client_id, signer.user):
                # What is sent to a client, as half messages are, would go to whoever says its id.
                raise Illegal(Code.FORBIDDEN, f"{CLIENT_ID} is that of another user's client")
            identity = context.identity()  # type: ignore[attr-defined]  # Of our transport.
            note_proof(identity, partial(self._holds, signer.access_key, signer.user))
        address = _address_of(context.peer())
        USER.set(acted_for(signer.user, address if signer.by_address else ""))
        return Caller(
            client_id,
            _text(metadata.get("x-mq-language", ""))[:WORD_LENGTH_MAX],
            _text(metadata.get("x-mq-client-version", ""))[:WORD_LENGTH_MAX],
            address,
            time_of(context),
            signer.user,
            signer.access_key,
        )

    @contextmanager
    def staying(self, caller: Caller) -> Iterator[None]:
        """Let a call in that lasts: it ends when the key does that it is signed with."""
        task, call = asyncio.current_task(), current_call()
        if self._keys is None or task is None or call is None:
            yield
            return
        self._staying[task] = _Stay(call, caller.access_key, caller.user)
        try:
            yield
        finally:
            del self._staying[task]

    def end_signed_by_lost_keys(self) -> None:
        """End calls that last whose keys do not hold any more."""
        for task, stay in list(self._staying.items()):
            if not self._holds(stay.access_key, stay.user) and stay.call.ended is None:
                stay.call.ended = ServiceError(
                    ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, "the access key holds no more"
                )
                task.cancel()

    def _holds(self, access_key: str, user: str) -> bool:
        """Whether a key is still that of a user."""
        key = None if self._keys is None else self._keys.find(access_key)
        return key is not None and key.user == user

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


def time_of(context: aio.ServicerContext[Any, Any]) -> float:
    """How long the caller waits for the answer, in seconds."""
    # None if it set no deadline, although the stub's type has no None.
    remaining_s: float | None = context.time_remaining()
    return CALL_S_DEFAULT if remaining_s is None else remaining_s


@lru_cache(maxsize=4096)
def _address_of(peer: str) -> str:
    """A caller's address, without the kind that gRPC writes before it."""
    return unquote(peer.partition(":")[2]) or peer


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("ascii", "replace")
