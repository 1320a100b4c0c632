"""Who makes a call: what its connection has proved, and whom a member acts for."""

from __future__ import annotations

import re
from typing import Any, Final

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.member_names import USER_WORD
from ariane_servicekit.security.service_tls import ServiceTls

ACTING_KEY: Final = "x-ariane-acting-for"
"""Metadata key: the user for whom a member makes this call."""

ACTING_KINDS: Final = frozenset({MemberKind.FILTER, MemberKind.GATEWAY, MemberKind.ADMIN})
"""Members that may make calls for users."""

_CALLER: Final = "caller"
"""Among the notes of a connection."""


class Identifier:
    """An ``Identify`` of a process with certificates. A connection is looked at once."""

    def __init__(self, tls: ServiceTls) -> None:
        self._tls = tls

    def __call__(self, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Find who makes a call.

        Raises:
            ServiceError: CREDENTIALS_INVALID: somebody acts for a user who may not, or for nobody
                that can be.
        """
        identity = context.identity()  # type: ignore[attr-defined]  # Of our transport.
        caller: Caller | None = identity.notes.get(_CALLER)
        if caller is None:
            caller = identity.notes[_CALLER] = self._tls.caller(identity)
        return acted_for(caller, context)


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
    if re.fullmatch(USER_WORD, user) is None:
        raise ServiceError(
            ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, f"{ACTING_KEY} does not name a user"
        )
    return Caller(CallerKind.USER, member.peer, user, acting=member)
