"""The caller of a method: its user and its address."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from ariane_admin.asking.admin_service import USER_KEY
from ariane_servicekit import Call, ServiceError
from ariane_servicekit.security.caller import CallerKind

ORIGIN_KEY: Final = "x-ariane-origin"
"""Metadata key: the browser's address as seen by the console. Used only with the console's pass."""

PROOF_KEY: Final = "x-ariane-console-proof"
"""Metadata key: the secret that admin drew for its own console at the start."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a method."""

    user: str
    """Who it has proved to be, and who acts for it; empty if it has proved nothing."""
    claimed_user: str
    """The user as the caller claims."""
    source_address: str
    """The address of the caller."""


def caller_of(call: Call | None, console_pass: str) -> Caller:
    """The caller of a call.

    Args:
        call: The call in work.
        console_pass: The secret with which the console's word on the address counts.
    """
    if call is None:
        return Caller("", "", "")
    claims = {
        key: value if isinstance(value, str) else value.decode("utf-8", "replace")
        for key, value in call.context.invocation_metadata() or ()
        if key in {USER_KEY, ORIGIN_KEY, PROOF_KEY}
    }
    address = _plain(call.peer)
    if hmac.compare_digest(claims.get(PROOF_KEY, "").encode(), console_pass.encode()):
        address = claims.get(ORIGIN_KEY, address)
    return Caller(_proved(call), claims.get(USER_KEY, ""), address)


def _proved(call: Call) -> str:
    try:
        caller = call.caller
    except ServiceError:
        return ""  # Only an open process gets here: others have refused the call.
    if caller.kind is CallerKind.ANONYMOUS:
        return ""
    own = caller.name if caller.kind is CallerKind.USER else str(caller)
    return own if caller.acting is None else f"{own} by {caller.acting}"


def _plain(peer: str) -> str:
    """An address without gRPC's prefix, as in "ipv4:127.0.0.1:40211"."""
    kind, _, rest = peer.partition(":")
    text = rest if kind in {"ipv4", "ipv6"} else peer
    return text.replace("%5B", "[").replace("%5D", "]")
