"""The rules for users, roles, entries and credentials, as operators write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from secrets import token_hex
from typing import Final

from ariane.admin.v1.user_service_pb2 import (
    CREDENTIAL_KIND_ROCKETMQ_KEY,
    CREDENTIAL_KIND_SIGNING_KEY,
    Credential,
)
from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit import field_invalid
from ariane_servicekit.security.identity.logins import CREDENTIAL_ID, KEY_BYTES
from ariane_servicekit.security.rights.explained import network_of

ENTRIES_MAX: Final = 1000
"""Entries of one policy."""

ROLES_MAX: Final = 64
"""Roles of one user."""

NETWORKS_MAX: Final = 64
"""Networks of one entry."""

DESCRIPTION_BYTES_MAX: Final = 1024

ROLE_PREFIX: Final = "role:"
"""The beginning of a role's name, where a user's may stand as well."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,120}")
_ROLE: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,120}")
_PATTERN_NAME_MAX: Final = 255

GRANTED_ACTIONS: Final = frozenset(
    {
        access.ACTION_PUBLISH,
        access.ACTION_SUBSCRIBE,
        access.ACTION_CREATE,
        access.ACTION_UPDATE,
        access.ACTION_DELETE,
        access.ACTION_GET,
    }
)
"""Actions that can be granted."""

DRAWN_BYTES: Final = 8

SECRET_LENGTH_MAX: Final = 256


def check_user_name(name: str, field: str = "user") -> str:
    """Return a user's name if it is legal.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if _NAME.fullmatch(name) is None:
        raise field_invalid(field, "must be 1 to 120 letters, digits, '_' or '-'", name)
    return name


def check_role(name: str, field: str = "roles") -> str:
    """Return a role's name if it is legal: groups of OpenID providers have dots and slashes.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if _ROLE.fullmatch(name) is None:
        raise field_invalid(field, "must be 1 to 120 letters, digits or _ . : / @ -", name)
    return name


def check_subject(subject: str, field: str = "policy.user") -> str:
    """Return whose a policy is, if that is legal.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if subject.startswith(ROLE_PREFIX):
        check_role(subject.removeprefix(ROLE_PREFIX), field)
    else:
        check_user_name(subject, field)
    return subject


def check_roles(roles: Sequence[str]) -> list[str]:
    """Return roles, each once, in order.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(roles) > ROLES_MAX:
        raise field_invalid("roles", f"must be at most {ROLES_MAX}")
    return sorted({check_role(role) for role in roles})


def check_description(text: str) -> str:
    """Return a description if it is short enough.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(text.encode()) > DESCRIPTION_BYTES_MAX:
        raise field_invalid("description", f"must be at most {DESCRIPTION_BYTES_MAX} bytes")
    return text


def check_entries(entries: Sequence[rules.AccessEntry]) -> None:
    """Check the entries of a policy.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(entries) > ENTRIES_MAX:
        raise field_invalid("policy.entries", f"must be at most {ENTRIES_MAX}")
    for place, entry in enumerate(entries):
        _check_entry(f"policy.entries[{place}]", entry)


def _check_entry(path: str, entry: rules.AccessEntry) -> None:
    if entry.decision not in {rules.ACCESS_DECISION_ALLOW, rules.ACCESS_DECISION_DENY}:
        raise field_invalid(f"{path}.decision", "must be allow or deny")
    if entry.resource not in access.Resource.values() or not entry.resource:
        raise field_invalid(f"{path}.resource", "must be one that there is")
    if not entry.actions or not set(entry.actions) <= GRANTED_ACTIONS:
        raise field_invalid(
            f"{path}.actions", "must be some of PUBLISH, SUBSCRIBE, CREATE, UPDATE, DELETE, GET"
        )
    _check_pattern(path, entry)
    if len(entry.source_networks) > NETWORKS_MAX:
        raise field_invalid(f"{path}.source_networks", f"must be at most {NETWORKS_MAX}")
    for network in entry.source_networks:
        try:
            network_of(network)
        except ValueError:
            raise field_invalid(
                f"{path}.source_networks", "must be networks such as 10.1.0.0/16", network
            ) from None


def _check_pattern(path: str, entry: rules.AccessEntry) -> None:
    if entry.pattern == rules.NAME_PATTERN_ANY:
        if entry.name:
            raise field_invalid(f"{path}.name", "must be empty, since every name fits")
        return
    if entry.resource == access.RESOURCE_CLUSTER:
        raise field_invalid(f"{path}.pattern", "must be any: the cluster has no name")
    if entry.pattern not in {rules.NAME_PATTERN_LITERAL, rules.NAME_PATTERN_PREFIX}:
        raise field_invalid(f"{path}.pattern", "must be any, literal or prefix")
    if not 0 < len(entry.name) <= _PATTERN_NAME_MAX or not entry.name.isprintable():
        raise field_invalid(f"{path}.name", f"must be 1 to {_PATTERN_NAME_MAX} printed characters")


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
