"""The rules for credentials, as users bring them."""

from __future__ import annotations

from secrets import token_hex
from typing import Final

from ariane.admin.v1.user_service_pb2 import CREDENTIAL_KIND_SIGNING_KEY, Credential
from ariane_admin.users.policy_check import check_description
from ariane_servicekit import field_invalid
from ariane_servicekit.security.logins import CREDENTIAL_ID, KEY_BYTES

DRAWN_BYTES: Final = 8


def checked_credential(wanted: Credential) -> Credential:
    """Return a credential as it is kept; its id is drawn if it has none.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if wanted.kind != CREDENTIAL_KIND_SIGNING_KEY:
        raise field_invalid("credential.kind", "must be one that there is")
    credential_id = wanted.credential_id or token_hex(DRAWN_BYTES)
    if CREDENTIAL_ID.fullmatch(credential_id) is None:
        raise field_invalid(
            "credential.credential_id", "must be 1 to 64 letters, digits, '_' or '-'", credential_id
        )
    if len(wanted.public_key) != KEY_BYTES:
        raise field_invalid("credential.public_key", f"must have {KEY_BYTES} bytes: Ed25519")
    return Credential(
        credential_id=credential_id,
        kind=wanted.kind,
        public_key=wanted.public_key,
        description=check_description(wanted.description),
    )
