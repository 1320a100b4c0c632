"""Proving who a client is, once on each connection, and again before the proof ends."""

from __future__ import annotations

import asyncio
import hashlib
from random import Random
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.common.v1.login_service_pb2 import (
    DESCRIPTOR,
    BeginLoginRequest,
    BeginLoginResponse,
    FinishLoginRequest,
    FinishLoginResponse,
    KeyProof,
)
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import CredentialSource, PrivateKey, server_name
from ariane_wire import OpenConnection

_SERVICE: Final = DESCRIPTOR.services_by_name["LoginService"].full_name
_CALL_S: Final = 10.0
_RENEWED_AT: Final = 0.5
"""The part of its time after which a login is renewed."""

_AGAIN_S: Final = 5.0
"""How long after a failed renewal the next one follows."""

_LEAST_S: Final = 0.1
_NONCE_BYTES: Final = 32
_PREFIX: Final = b"ariane-login-v1\0"


class Login:
    """Logs a client in on each of its new connections."""

    def __init__(self, source: CredentialSource, random: Random) -> None:
        """Take credentials from a source, which is asked for each login."""
        self._source = source
        self._random = random
        self._renewals: set[asyncio.Task[None]] = set()

    async def __call__(self, connection: OpenConnection) -> None:
        """Log in.

        Raises:
            AioRpcError: The server refuses.
            IllegalArgument: The credentials cannot be read.
        """
        left_s = await self._log_in(connection)
        task = start_task(self._renew(connection, left_s), "login")
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    def close(self) -> None:
        """Renew no more."""
        for task in self._renewals:
            task.cancel()

    async def _renew(self, connection: OpenConnection, left_s: float) -> None:
        while True:
            await asyncio.sleep(left_s * _RENEWED_AT)
            try:
                left_s = await self._log_in(connection)
            except AioRpcError as error:
                if error.code() is StatusCode.UNAVAILABLE:
                    return  # The connection is gone, or goes away.
                logger.warning("the login was not renewed: %s", error.details())
                left_s = _AGAIN_S / _RENEWED_AT
            except Exception as error:  # noqa: BLE001 - a source of the application's may raise all.
                logger.warning("the login was not renewed: %s", error)
                left_s = _AGAIN_S / _RENEWED_AT

    async def _log_in(self, connection: OpenConnection) -> float:
        """Log in; return for how many seconds that holds."""
        credential = self._source()
        if isinstance(credential, PrivateKey):
            request = FinishLoginRequest(key=await self._proof(connection, credential))
        else:
            request = FinishLoginRequest(bearer_token=credential)
        finish = connection.unary_unary(
            f"/{_SERVICE}/FinishLogin",
            FinishLoginRequest.SerializeToString,
            FinishLoginResponse.FromString,
        )
        answer: FinishLoginResponse = await finish(request, timeout=_CALL_S)
        return max(_LEAST_S, answer.lifetime.ToMilliseconds() / 1000)

    async def _proof(self, connection: OpenConnection, key: PrivateKey) -> KeyProof:
        begin = connection.unary_unary(
            f"/{_SERVICE}/BeginLogin",
            BeginLoginRequest.SerializeToString,
            BeginLoginResponse.FromString,
        )
        begun: BeginLoginResponse = await begin(BeginLoginRequest(), timeout=_CALL_S)
        certificate = connection.certificate
        name = "" if certificate is None else "ariane://" + "/".join(server_name(certificate))
        shown = bytes(hashlib.sha256().digest_size)
        if certificate is not None:
            shown = certificate.fingerprint
        nonce = self._random.randbytes(_NONCE_BYTES)
        text = b"".join(
            (
                *(_PREFIX, begun.server_nonce, nonce, shown),
                bytes((len(name.encode()),)),
                *(name.encode(), key.credential_id.encode()),
            )
        )
        proof = KeyProof(
            credential_id=key.credential_id, client_nonce=nonce, signature=key.sign(text)
        )
        if key.delegation is not None:
            proof.delegation.terms, proof.delegation.signature = key.delegation
        return proof
