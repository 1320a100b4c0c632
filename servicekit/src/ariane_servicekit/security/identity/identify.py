"""Who makes a call: what its connection has proved, and whom a member acts for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.identity.logins import Login, Logins
from ariane_servicekit.security.identity.session_tokens import digest_of
from ariane_servicekit.security.rights.explained import plain_address
from ariane_servicekit.security.tls.member_names import USER_WORD
from ariane_servicekit.security.tls.service_tls import ServiceTls
from ariane_wire import Identity

ACTING_KEY: Final = "x-ariane-acting-for"
"""Metadata key: the user for whom a member makes this call; behind the name, with a space before
each, the groups that an OpenID provider has stated of the user; then, behind a semicolon, the
address that the user calls from, if the member knows it: ``anna ops;10.1.2.3``."""

ADDRESS_MARK: Final = ";"
"""Before the address; no name has it."""

ACTING_KINDS: Final = frozenset({MemberKind.FILTER, MemberKind.GATEWAY, MemberKind.ADMIN})
"""Members that may make calls for users."""

SESSION_KEY: Final = "x-ariane-session"
"""Metadata key: a session token of ``LoginService``."""

_CALLER: Final = "caller"
_PROVED: Final = "proved-by-calls"
"""Among the notes of a connection."""


class Identifier:
    """The ``Identify`` of a process. The certificate of a connection is looked at once."""

    def __init__(self, tls: ServiceTls | None, logins: Logins) -> None:
        self._tls = tls
        self._logins = logins

    def __call__(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Find who makes a call.

        Raises:
            ServiceError: CREDENTIALS_INVALID: somebody acts for a user who may not, or for nobody
                that can be; or a session token does not hold.
        """
        identity: Identity = context.identity()  # type: ignore[attr-defined]  # Of our transport.
        login = self._logins.login_of(identity)
        caller = self._by_certificate(identity) if login is None else login.caller
        for key, value in context.invocation_metadata() or ():
            if key == SESSION_KEY:
                caller = self._by_session(str(value), identity)
        return acted_for(caller, context)

    def is_stranger(self, identity: Identity) -> bool:
        """Whether nothing has been proved on a connection: by no certificate, login or call."""
        holds: Callable[[], bool] | None = identity.notes.get(_PROVED)
        if (holds is not None and holds()) or self._logins.login_of(identity) is not None:
            return False
        return self._by_certificate(identity).kind is CallerKind.ANONYMOUS

    @staticmethod
    def has_lost_proof(identity: Identity) -> bool:
        """Whether a call has proved who is there, and that holds no more."""
        holds: Callable[[], bool] | None = identity.notes.get(_PROVED)
        return holds is not None and not holds()

    def _by_certificate(self, identity: Identity) -> Caller:
        caller: Caller | None = identity.notes.get(_CALLER)
        if caller is None:
            if self._tls is None:
                caller = Caller(CallerKind.ANONYMOUS, identity.peer)
            else:
                caller = self._tls.caller(identity)
            identity.notes[_CALLER] = caller
        return caller

    def _by_session(self, token: str, identity: Identity) -> Caller:
        login = self._logins.session_of(token, identity)
        if login is None:
            raise ServiceError(
                ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
                f"{SESSION_KEY} does not hold, here or any more",
            )
        # What is noted lives as long as the connection: the token itself does not stay.
        note_proof(identity, partial(self._session_holds, digest_of(token), login))
        return login.caller

    def _session_holds(self, digest: bytes, login: Login) -> bool:
        return self._logins.tokens.keeps(digest) and self._logins.holds(login)


def note_proof(identity: Identity, holds: Callable[[], bool]) -> None:
    """Take note that a call has proved who is at the other end of its connection.

    Args:
        identity: Of the connection.
        holds: Whether what the call has proved holds yet.
    """
    identity.notes[_PROVED] = holds


def acted_for(caller: Caller, context: aio.ServicerContext[Any, Any]) -> Caller:
    """Return the user for whom a caller acts in this call, or the caller itself.

    Raises:
        ServiceError: CREDENTIALS_INVALID.
    """
    for key, value in context.invocation_metadata() or ():
        if key == ACTING_KEY:
            return _acting(caller, str(value))
    return caller


def _acting(member: Caller, user: str) -> Caller:
    if member.kind is not CallerKind.MEMBER or member.member_kind not in ACTING_KINDS:
        raise ServiceError(
            ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
            f"{ACTING_KEY} is for members of the cluster that act for users",
        )
    words, mark, address = user.partition(ADDRESS_MARK)
    name, *groups = words.split(" ")
    if not all(re.fullmatch(USER_WORD, word) for word in (name, *groups)):
        raise ServiceError(
            ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, f"{ACTING_KEY} does not name a user"
        )
    # The member's own address says nothing of the user: without his, no entry that asks for a
    # network allows him anything, and each that denies may mean him.
    peer = _peer_of(address) if mark else ""
    return Caller(CallerKind.USER, peer, name, groups=tuple(groups), acting=member)


def _peer_of(address: str) -> str:
    try:
        # The zone of an address is the member's own, and means nothing here.
        plain = plain_address(address.partition("%")[0])
    except ValueError:
        raise ServiceError(
            ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
            f"{ACTING_KEY} names no address behind {ADDRESS_MARK!r}",
        ) from None
    return f"ipv4:{plain}:0" if plain.version == 4 else f"ipv6:[{plain}]:0"


def acting_text(caller: Caller | None, address: str = "") -> str:
    """What ``ACTING_KEY`` says of a user; empty for anybody else.

    Args:
        caller: For whom a member acts.
        address: The IP address that it calls from now; empty for that of ``caller``.

    Raises:
        ServiceError: ACCESS_DENIED: the caller has shown a delegation, of which others would not
            know: they would take it for the user with all its rights.
    """
    if caller is None or caller.kind is not CallerKind.USER:
        return ""
    if caller.scope is not None:
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED,
            "a delegated key is for brokers and name servers: nobody acts for it",
        )
    words = " ".join((caller.name, *caller.groups))
    address = address or caller.address
    return f"{words}{ADDRESS_MARK}{address}" if address else words
