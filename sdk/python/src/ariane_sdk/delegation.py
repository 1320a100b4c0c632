"""Keys that one's own key lets log in for a while and for less, for helpers of a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ariane.common.v1.access_rules_pb2 import AccessEntry
from ariane.common.v1.login_service_pb2 import DelegationTerms
from ariane_sdk.security import PrivateKey

_PREFIX: Final = b"ariane-delegation-v1\0"


@dataclass(frozen=True, slots=True)
class DelegatedKey:
    """A private key and what lets it log in; it may travel to helpers over safe channels."""

    credential_id: str
    """The credential that has signed."""
    key: bytes = field(repr=False)
    """The private key: Ed25519, 32 bytes. Secret."""
    terms: bytes = field(repr=False)
    """What it may do, and until when."""
    signature: bytes = field(repr=False)
    """Of the terms."""

    def private_key(self) -> PrivateKey:
        """The key, to log in by."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - only for keys
            Ed25519PrivateKey,
        )

        key = Ed25519PrivateKey.from_private_bytes(self.key)
        return PrivateKey(self.credential_id, key.sign, (self.terms, self.signature))


def delegate(own: PrivateKey, entries: Iterable[AccessEntry], ends_ms: int) -> DelegatedKey:
    """Draw a key, and let it log in as the owner of another one.

    Args:
        own: The other one.
        entries: What the new key may do, of what the owner may do.
        ends_ms: Until when, in ms since 1970: at most 7 days ahead.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - only for keys
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.generate()
    terms = DelegationTerms(
        credential_id=own.credential_id,
        public_key=key.public_key().public_bytes_raw(),
        entries=entries,
    )
    terms.expire_time.FromMilliseconds(ends_ms)
    stated = terms.SerializeToString()
    return DelegatedKey(
        own.credential_id, key.private_bytes_raw(), stated, own.sign(_PREFIX + stated)
    )
