"""Logins: how users without a certificate prove who they are, once on each connection.

::

    BeginLogin  -> a nonce of this connection, for one proof
    FinishLogin <- the proof: a signature over both nonces, this server and its certificate; or a
                   token of an OpenID provider
    every call     of the connection is the user's, until the login ends

Nothing that travels can be used again: a nonce holds for one proof of one connection, and what is
signed names this server. Whatever is wrong is refused by one text, after as long.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, Protocol

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.login_service_pb2 import KeyProof
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.machine import Machine
from ariane_servicekit.observability.logs import LineBudget, get_logger
from ariane_servicekit.security.caller import Caller, CallerKind, address_of_peer
from ariane_servicekit.security.identity.delegations import Scopes, delegated, is_signed
from ariane_servicekit.security.identity.session_tokens import SessionTokens, alike
from ariane_servicekit.security.rights.rights import Rights
from ariane_servicekit.security.tls.service_tls import ServiceTls
from ariane_wire import Identity

CREDENTIAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY_BYTES: Final = 32
"""Of a public key, Ed25519."""

NONCE_BYTES: Final = 32
NONCE_MS_MAX: Final = 30_000
LOGIN_MS_MAX: Final = 3_600_000
"""A login ends then; the client renews it before, on the same connection."""

WRONG_S_FIRST: Final = 0.25
WRONG_S_MAX: Final = 5.0
"""How long the answer to a wrong proof takes: it doubles from proof to proof of a connection. Right
ones are answered at once: whoever guesses cannot keep an honest user out. Until that answer the
connection has no other proof looked at, so a thousand a second cost as much as one."""

WAITING_MAX: Final = 256
"""Answers to wrong proofs that wait at a time, of all connections: each is a call in work, and many
hosts together would have as many as there may be. Beyond it the answer comes at once, and the
connection has its next proof looked at as late all the same."""

PREFIX: Final = b"ariane-login-v1\0"
_NONCE, _LOGIN, _WRONG, _WAITS = "login-nonce", "login", "login-wrong", "login-waits"
"""Notes of a connection."""

_log = get_logger(__name__)


_WRONG_TEXT: Final = "the credentials are wrong, unknown, expired or disabled"


class PublicKey(NamedTuple):
    """A key that a user may prove its name by."""

    user: str
    """Whose it is."""
    key: bytes
    """Ed25519, 32 bytes."""
    ends_ms: int = 0
    """When it stops to hold; 0 for never."""


_NOBODY: Final = PublicKey(
    "", bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
"""A key that nobody has here: an unknown credential takes as long as a wrong signature."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of one connection."""

    caller: Caller
    """Who it is."""
    ends_ms: int
    """Until when."""


class TokenVerifier(Protocol):
    """Verifies tokens of an OpenID provider."""

    async def verify(self, token: str, peer: str) -> tuple[Caller, int]:
        """The user of a token, and when it ends, in ms since 1970.

        Raises:
            ValueError: The token does not hold; the text is for the log.
        """
        ...


class Logins:
    """Of one process."""

    def __init__(
        self,
        key_of: Callable[[str], PublicKey | None],
        machine: Machine,
        tls: ServiceTls | None,
        *,
        insecure: bool,
        verifier: TokenVerifier | None = None,
    ) -> None:
        """Take proofs.

        Args:
            key_of: Finds a credential by its id; None for one that does not hold.
            machine: Clock, and source of nonces.
            tls: What the process shows; None for plain text.
            insecure: Whether proofs in plain text are taken from other machines.
            verifier: Of tokens; None where no provider is configured.
        """
        self._key_of = key_of
        self._machine = machine
        self._tls = tls
        self._insecure = insecure
        self._verifier = verifier
        self._budget = LineBudget(10)
        self._waiting_count = 0
        self._scopes = Scopes()
        self.tokens = SessionTokens(machine.chance, machine.clock)
        """For stubs that cannot log in on each connection."""

    def begin(self, identity: Identity) -> bytes:
        """Draw the nonce of a connection.

        Raises:
            ServiceError: CREDENTIALS_INVALID: the connection is in plain text, or a member's.
        """
        self._check_place(identity)
        nonce = self._machine.chance.randbytes(NONCE_BYTES)
        identity.notes[_NONCE] = nonce, self._machine.clock.now_ms()
        return nonce

    async def finish_by_key(self, identity: Identity, proof: KeyProof) -> Login:
        """Log in by a key, or by one to which it is delegated.

        Raises:
            ServiceError: CREDENTIALS_INVALID.
        """
        self._check_place(identity)
        self._check_turn(identity)
        now_ms = self._machine.clock.now_ms()
        nonce, drawn_ms = identity.notes.pop(_NONCE, (b"", 0))
        known = self._key_of(proof.credential_id)
        expired = known is not None and 0 < known.ends_ms <= now_ms
        text = signed_text(
            nonce,
            proof.client_nonce,
            identity.own_fingerprint,
            "" if self._tls is None or not identity.is_encrypted else str(self._tls.own),
            proof.credential_id,
        )
        signer, ends_ms = known or _NOBODY, now_ms + LOGIN_MS_MAX
        key = signer.key
        scope: Rights | None = None
        delegation_ends_ms = 0
        if proof.HasField("delegation"):
            try:
                key, delegation_ends_ms, scope = delegated(
                    proof.delegation,
                    proof.credential_id,
                    signer,
                    identity.peer,
                    now_ms=now_ms,
                    scopes=self._scopes,
                )
            except ValueError as error:
                await self._refuse(identity, str(error))
            ends_ms = min(ends_ms, delegation_ends_ms)
        is_right = is_signed(key, proof.signature, text)
        if not nonce or now_ms - drawn_ms > NONCE_MS_MAX or len(proof.client_nonce) != NONCE_BYTES:
            await self._refuse(identity, "there is no nonce for this proof")
        if known is None or expired or not is_right:
            await self._refuse(identity, "unknown or expired credential, or wrong signature")
        ends_ms = min(ends_ms, known.ends_ms or ends_ms)
        caller = Caller(
            CallerKind.USER,
            identity.peer,
            known.user,
            credential_id=proof.credential_id,
            scope=scope,
            ends_ms=min(filter(None, (known.ends_ms, delegation_ends_ms)), default=0),
        )
        return self._logged_in(identity, Login(caller, ends_ms))

    async def finish_by_token(self, identity: Identity, token: str) -> Login:
        """Log in by a token of an OpenID provider.

        Raises:
            ServiceError: CREDENTIALS_INVALID.
        """
        self._check_place(identity)
        self._check_turn(identity)
        if self._verifier is None:
            await self._refuse(identity, "no OpenID provider is configured")
        try:
            caller, ends_ms = await self._verifier.verify(token, identity.peer)
        except ValueError as error:
            await self._refuse(identity, str(error))
        return self._logged_in(identity, Login(caller, ends_ms))

    def login_of(self, identity: Identity) -> Login | None:
        """The login of a connection that holds; None without."""
        login: Login | None = identity.notes.get(_LOGIN)
        return login if login is not None and self.holds(login) else None

    def has_ended(self, identity: Identity) -> bool:
        """Whether a connection had a login, and has none any more."""
        login: Login | None = identity.notes.get(_LOGIN)
        return login is not None and not self.holds(login)

    def session_of(self, token: str, identity: Identity) -> Login | None:
        """The login of a session token that holds for a connection; None for any other."""
        if not self._insecure and not is_private(identity):
            return None
        login = self.tokens.login_of(token, identity.peer)
        if login is not None and not self.holds(login):
            self.tokens.forget(token)
            return None
        return login

    def left_ms(self, login: Login) -> int:
        """For how long a login holds yet."""
        return max(0, login.ends_ms - self._machine.clock.now_ms())

    def holds(self, login: Login) -> bool:
        """Whether a login holds: it has not ended, and its credential is still the user's."""
        if login.ends_ms <= self._machine.clock.now_ms():
            return False
        caller = login.caller
        if not caller.credential_id:
            return True
        known = self._key_of(caller.credential_id)
        return known is not None and known.user == caller.name

    def proved_until_ms(self, caller: Caller, identity: Identity) -> int:
        """Until when what a caller has proved lasts; 0 for no end of its own.

        A client renews it: another login of the same user counts as well, on this connection or, as
        long as its session token is kept, from the same address.
        """
        if not caller.ends_ms or caller.scope is not None:
            return caller.ends_ms
        renewed = self.login_of(identity)
        here_ms = renewed.ends_ms if renewed is not None and alike(renewed, caller) else 0
        return max(caller.ends_ms, here_ms, self.tokens.lasting_ms(caller))

    def _logged_in(self, identity: Identity, login: Login) -> Login:
        identity.notes[_LOGIN] = login
        identity.notes.pop(_WRONG, None)
        return login

    def _check_place(self, identity: Identity) -> None:
        if not self._insecure and not is_private(identity):
            raise _invalid("proofs are taken over TLS only")
        if self._tls is not None and self._tls.caller(identity).kind is CallerKind.MEMBER:
            raise _invalid("a process of the cluster is known by its certificate")

    def _check_turn(self, identity: Identity) -> None:
        """Refuse a proof unseen while the connection waits for the answer to a wrong one."""
        if _WAITS in identity.notes:
            raise _invalid(_WRONG_TEXT)

    async def _refuse(self, identity: Identity, cause: str) -> NoReturn:
        """Refuse a proof, after a while.

        Raises:
            ServiceError: Always.
        """
        wrong = identity.notes[_WRONG] = identity.notes.get(_WRONG, 0) + 1
        left_out = self._budget.spend()
        if left_out is not None:
            _log.warning("login_refused", peer=identity.peer, cause=cause, left_out=left_out)
        # One answer of a connection waits: more would keep calls of others out.
        if _WAITS not in identity.notes:
            identity.notes[_WAITS] = True
            await self._wait(identity, min(WRONG_S_FIRST * 2 ** min(wrong - 1, 10), WRONG_S_MAX))
        raise _invalid(_WRONG_TEXT)

    async def _wait(self, identity: Identity, seconds: float) -> None:
        """Have a connection wait until its next proof is looked at; its answer, too, if it may."""
        if self._waiting_count >= WAITING_MAX:
            asyncio.get_running_loop().call_later(seconds, identity.notes.pop, _WAITS, None)
            return
        self._waiting_count += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting_count -= 1
            del identity.notes[_WAITS]


def signed_text(
    server_nonce: bytes,
    client_nonce: bytes,
    fingerprint: bytes,
    server_name: str,
    credential_id: str,
) -> bytes:
    """What a client signs; see ``KeyProof``."""
    name = server_name.encode()
    return b"".join(
        (
            PREFIX,
            server_nonce,
            client_nonce,
            fingerprint or bytes(hashlib.sha256().digest_size),
            bytes((len(name),)),
            name,
            credential_id.encode(),
        )
    )


def is_private(identity: Identity) -> bool:
    """Whether nobody on the way reads what a connection carries: TLS, or the same machine."""
    # The way from a proxy is another than that to it.
    return identity.is_encrypted or (not identity.is_proxied and is_local(identity.peer))


def is_local(peer: str) -> bool:
    """Whether a peer, in gRPC's form, is a process of this machine."""
    address = address_of_peer(peer)
    return peer.startswith("unix:") or address == "::1" or address.startswith("127.")


def _invalid(text: str) -> ServiceError:
    return ServiceError(ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, text)
