"""The rules for credentials, as users bring them."""

from __future__ import annotations

from secrets import token_hex
from typing import Final

from ariane.admin.v1.user_service_pb2 import (
    CREDENTIAL_KIND_ROCKETMQ_KEY,
    CREDENTIAL_KIND_SIGNING_KEY,
    Credential,
)
from ariane_admin.users.policy_check import check_description
from ariane_servicekit import field_invalid
from ariane_servicekit.security.identity.logins import CREDENTIAL_ID, KEY_BYTES

DRAWN_BYTES: Final = 8


SECRET_LENGTH_MAX: Final = 256


def checked_credential(wanted: Credential, secret: str) -> Credential:
    """Return a credential as it is kept; the id of a signing key is drawn if it has none.

    Args:
        wanted: The credential.
        secret: Of a RocketMQ key; empty for others.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    is_rocketmq_key = wanted.kind == CREDENTIAL_KIND_ROCKETMQ_KEY
    if not is_rocketmq_key and wanted.kind != CREDENTIAL_KIND_SIGNING_KEY:
        raise field_invalid("credential.kind", "must be one that there is")
    credential_id = wanted.credential_id
    if not credential_id and not is_rocketmq_key:
        credential_id = token_hex(DRAWN_BYTES)
    if CREDENTIAL_ID.fullmatch(credential_id) is None:
        raise field_invalid(
            "credential.credential_id", "must be 1 to 64 letters, digits, '_' or '-'", credential_id
        )
    if is_rocketmq_key:
        _check_secret(secret, wanted.public_key)
    elif len(wanted.public_key) != KEY_BYTES or secret:
        raise field_invalid("credential.public_key", f"must have {KEY_BYTES} bytes: Ed25519")
    return Credential(
        credential_id=credential_id,
        kind=wanted.kind,
        public_key=wanted.public_key,
        description=check_description(wanted.description),
    )


def _check_secret(secret: str, public_key: bytes) -> None:
    # The text never has the secret: it would be in logs.
    if public_key:
        raise field_invalid("credential.public_key", "must be empty: a RocketMQ key has none")
    if not 0 < len(secret) <= SECRET_LENGTH_MAX or not secret.isprintable():
        raise field_invalid("secret", f"must be 1 to {SECRET_LENGTH_MAX} printed characters")
