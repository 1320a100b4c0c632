"""Delegations: what a user's key lets another key do, for a while and for less.

A program that logs in by its own key hands helpers a key that it has just drawn, and what its own
key has signed about it. Nothing of it is kept here, so every process takes it from any address; it
ends by itself, or together with the credential.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from ariane.common.v1.access_rules_pb2 import AccessEntry
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.login_service_pb2 import Delegation, DelegationTerms
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.caller import address_of_peer
from ariane_servicekit.security.rights.explained import holds_from, network_of
from ariane_servicekit.security.rights.rights import Rights

if TYPE_CHECKING:
    from ariane_servicekit.security.identity.logins import PublicKey

DELEGATION_MS_MAX: Final = 7 * 86_400_000
"""How far ahead the end of a delegation may be."""

TERMS_BYTES_MAX: Final = 65_536
ENTRIES_MAX: Final = 1000
PREFIX: Final = b"ariane-delegation-v1\0"

LARGE_BYTES: Final = 1024
"""Terms beyond that are large: what they leave takes some ten times as much memory, for as long as
a connection or a session has shown them."""

LARGE_BYTES_MAX: Final = 16 << 20
"""Of all large terms in use, each counted once; a quarter of it of those of one user."""


class Delegated(NamedTuple):
    """A delegation that holds."""

    key: bytes
    """The holder's public key."""
    ends_ms: int
    """Until when, in ms since 1970."""
    scope: Rights
    """What is left of the user's rights."""


class Scopes:
    """What delegations in use leave of rights; those that are alike share one.

    Whoever has a key may sign any number of delegations.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[bytes, str], Rights] = WeakValueDictionary()
        self._large: WeakKeyDictionary[Rights, tuple[str, int]] = WeakKeyDictionary()

    def of(self, terms: bytes, entries: Sequence[AccessEntry], owner: str, address: str) -> Rights:
        """What terms leave to a client.

        Args:
            terms: The terms.
            entries: Those in them.
            owner: The user whose rights they are.
            address: Of the client.

        Raises:
            ServiceError: SERVICE_BUSY: as many large ones as there may be are in use.
        """
        by_address = any(entry.source_networks for entry in entries)
        key = hashlib.sha256(terms).digest(), address if by_address else ""
        scope = self._known.get(key)
        if scope is not None:
            return scope
        if len(terms) > LARGE_BYTES:
            self._check_room(owner, len(terms))
        scope = self._known[key] = Rights(each for each in entries if holds_from(each, address))
        if len(terms) > LARGE_BYTES:
            self._large[scope] = owner, len(terms)
        return scope

    def _check_room(self, owner: str, size: int) -> None:
        used = list(self._large.values())
        theirs = size + sum(each for user, each in used if user == owner)
        if max(4 * theirs, size + sum(each for _, each in used)) > LARGE_BYTES_MAX:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_BUSY,
                "too many large delegations are in use; name fewer things in each",
                {"limit": LARGE_BYTES_MAX},
            )


def delegated(
    delegation: Delegation,
    credential_id: str,
    signer: PublicKey,
    peer: str,
    *,
    now_ms: int,
    scopes: Scopes,
) -> Delegated:
    """Check a delegation.

    Args:
        delegation: What the client shows.
        credential_id: The credential that it logs in by.
        signer: The public key of that.
        peer: The address of the client, in gRPC's form.
        now_ms: The present.
        scopes: Those in use.

    Raises:
        ValueError: It does not hold; the text is for the log.
        ServiceError: SERVICE_BUSY: as many large ones as there may be are in use.
    """
    if len(delegation.terms) > TERMS_BYTES_MAX:
        raise ValueError("the terms of a delegation are too long")
    if not is_signed(signer.key, delegation.signature, PREFIX + delegation.terms):
        raise ValueError("the credential's key has not signed the delegation")
    try:
        terms = DelegationTerms.FromString(delegation.terms)
    except DecodeError:
        raise ValueError("the terms of a delegation cannot be read") from None
    ends_ms = terms.expire_time.ToMilliseconds()
    if terms.credential_id != credential_id:
        raise ValueError("the delegation is of another credential")
    if not now_ms < ends_ms <= now_ms + DELEGATION_MS_MAX:
        raise ValueError("the delegation has ended, or lasts too long")
    if len(terms.entries) > ENTRIES_MAX:
        raise ValueError("the delegation has too many entries")
    for network in (each for entry in terms.entries for each in entry.source_networks):
        network_of(network)
    scope = scopes.of(delegation.terms, terms.entries, signer.user, address_of_peer(peer))
    return Delegated(terms.public_key, ends_ms, scope)


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether a text has a right signature by a key: Ed25519."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
