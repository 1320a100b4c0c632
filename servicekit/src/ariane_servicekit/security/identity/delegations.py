"""Delegations: what a user's key lets another key do, for a while and for less.

A program that logs in by its own key hands helpers a key that it has just drawn, and what its own
key has signed about it. Nothing of it is kept here, so every process takes it from any address; it
ends by itself, or together with the credential.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from ariane.common.v1.login_service_pb2 import Delegation, DelegationTerms
from ariane_servicekit.security.caller import address_of_peer
from ariane_servicekit.security.rights.explained import holds_from, network_of
from ariane_servicekit.security.rights.rights import Rights

DELEGATION_MS_MAX: Final = 7 * 86_400_000
"""How far ahead the end of a delegation may be."""

TERMS_BYTES_MAX: Final = 65_536
ENTRIES_MAX: Final = 1000
PREFIX: Final = b"ariane-delegation-v1\0"


class Delegated(NamedTuple):
    """A delegation that holds."""

    key: bytes
    """The holder's public key."""
    ends_ms: int
    """Until when, in ms since 1970."""
    scope: Rights
    """What is left of the user's rights."""


def delegated(
    delegation: Delegation, credential_id: str, signer: bytes, peer: str, now_ms: int
) -> Delegated:
    """Check a delegation.

    Args:
        delegation: What the client shows.
        credential_id: The credential that it logs in by.
        signer: The public key of that.
        peer: The address of the client, in gRPC's form.
        now_ms: The present.

    Raises:
        ValueError: It does not hold; the text is for the log.
    """
    if len(delegation.terms) > TERMS_BYTES_MAX:
        raise ValueError("the terms of a delegation are too long")
    if not is_signed(signer, delegation.signature, PREFIX + delegation.terms):
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
    address = address_of_peer(peer)
    scope = Rights(entry for entry in terms.entries if holds_from(entry, address))
    return Delegated(terms.public_key, ends_ms, scope)


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether a text has a right signature by a key: Ed25519."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
