"""Credentials of users in the database. Runs in a thread of the database's."""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from ariane.admin.v1.access_policy_service_pb2 import AccessPolicy
from ariane.admin.v1.gateway_key_service_pb2 import GatewayKey
from ariane.admin.v1.user_service_pb2 import (
    CREDENTIAL_KIND_ROCKETMQ_KEY,
    CREDENTIAL_KIND_SIGNING_KEY,
    Credential,
)
from ariane.common.v1.access_rules_pb2 import PublicKey
from ariane_admin.database.tables import ACCESS_CREDENTIAL, ACCESS_POLICY, ACCESS_USER
from ariane_admin.servicers.times import time_of
from ariane_admin.users.quota_store import credentials_max
from ariane_admin.users.rows import changing, found, subjects_of
from ariane_admin.users.rules_room import check_room
from ariane_admin.users.secret_seal import SecretSeal
from ariane_servicekit import StartRefused, feature_not_available, field_invalid, get_logger
from ariane_servicekit.database import Database

CREDENTIALS_MAX: Final = 64
"""Credentials of one user."""

_log = get_logger(__name__)

_C: Final = ACCESS_CREDENTIAL.c


class CredentialStore:
    """Keeps credentials; each change makes the version of users grow.

    Args:
        database: The database.
        seal: Seals secrets; None where none are taken.
    """

    def __init__(self, database: Database, seal: SecretSeal | None) -> None:
        self._database = database
        self._seal = seal

    def check_seal(self) -> None:
        """Check that the secrets of the database open.

        Raises:
            StartRefused: One does not: it was sealed with the key of another admin.
        """
        try:
            for row in self._sealed_rows():
                self._opened(row)
        except ValueError as error:
            raise StartRefused(
                f"secret_key_file: {error}; all admins of one database need the same file"
            ) from None

    def create(
        self, user: str, credential: Credential, secret: str, expire_ms: int | None
    ) -> Credential:
        """Create a credential. One that is there already, with the same key, stays as it is.

        Args:
            user: Whose it is.
            credential: What to keep.
            secret: Of a RocketMQ key.
            expire_ms: When it ends; None for never.

        Raises:
            ServiceError: USER_NOT_FOUND; FIELD_INVALID for an id that is taken, or one credential
                too many; FEATURE_NOT_AVAILABLE for a secret that nothing seals.
        """
        is_secret = credential.kind == CREDENTIAL_KIND_ROCKETMQ_KEY
        if is_secret and self._seal is None:
            raise feature_not_available("CreateCredential of a RocketMQ key: see secret_key_file")
        with changing(self._database) as (connection, _):
            found(connection, user)
            present = _present(connection, credential.credential_id)
            if present is not None:
                if not self._is_same(present, user, credential, secret):
                    raise field_invalid(
                        "credential.credential_id",
                        "is that of another credential",
                        credential.credential_id,
                    )
                return _credential_of(present)
            count = select(func.count()).where(_C.user == user)
            limit = min(CREDENTIALS_MAX, credentials_max(connection, user) or CREDENTIALS_MAX)
            if connection.execute(count).scalar_one() >= limit:
                raise field_invalid("user", f"may have {limit} credentials; delete one", user)
            connection.execute(
                insert(ACCESS_CREDENTIAL).values(
                    credential_id=credential.credential_id,
                    user=user,
                    kind=credential.kind,
                    material=self._sealed(secret, user, credential)
                    if is_secret
                    else credential.public_key,
                    description=credential.description,
                    created_ms=self._database.now,
                    expire_ms=expire_ms,
                )
            )
            check_room(connection)
            made = _present(connection, credential.credential_id)
            assert made is not None  # noqa: S101 - inserted above
            return _credential_of(made)

    def gateway_keys(self) -> list[GatewayKey]:
        """The RocketMQ keys of enabled users, by access key, as far as they open."""
        keys = []
        by_address: frozenset[str] | None = None
        for row in self._sealed_rows():
            if by_address is None:
                by_address = self._judged_by_address()
            try:
                secret = self._opened(row)
            except ValueError as error:
                _log.error(
                    "gateway_key_not_sent", credential_id=row.credential_id, cause=str(error)
                )
                continue
            ends = None if row.expire_ms is None else time_of(row.expire_ms)
            keys.append(
                GatewayKey(
                    access_key=row.credential_id,
                    user=row.user,
                    secret_key=secret,
                    expire_time=ends,
                    by_address=not by_address.isdisjoint(subjects_of(row.user, row.roles)),
                )
            )
        return keys

    def _judged_by_address(self) -> frozenset[str]:
        """Subjects of policies in which an entry names networks."""
        with self._database.reading() as connection:
            return frozenset(
                row.subject
                for row in connection.execute(select(ACCESS_POLICY))
                if any(
                    entry.source_networks for entry in AccessPolicy.FromString(row.policy).entries
                )
            )

    def _sealed_rows(self) -> Sequence[Row[Any]]:
        if self._seal is None:
            return ()
        asked = (
            select(ACCESS_CREDENTIAL, ACCESS_USER.c.roles)
            .join(ACCESS_USER, ACCESS_USER.c.name == _C.user)
            .where(_C.kind == CREDENTIAL_KIND_ROCKETMQ_KEY, ACCESS_USER.c.enabled)
            .order_by(_C.credential_id)
        )
        with self._database.reading() as connection:
            return connection.execute(asked).all()

    def _opened(self, row: Row[Any]) -> str:
        assert self._seal is not None  # noqa: S101 - asked before
        return self._seal.open(row.material, _owner(row.user, row.credential_id))

    def of_user(self, user: str) -> list[Credential]:
        """The credentials of a user, oldest first.

        Raises:
            ServiceError: USER_NOT_FOUND.
        """
        asked = select(ACCESS_CREDENTIAL).where(_C.user == user)
        with self._database.reading() as connection:
            found(connection, user)
            rows = connection.execute(asked.order_by(_C.created_ms, _C.credential_id))
            return [_credential_of(row) for row in rows]

    def delete(self, user: str, credential_id: str) -> bool:
        """Delete a credential; return whether it was there.

        Raises:
            ServiceError: USER_NOT_FOUND.
        """
        gone = delete(ACCESS_CREDENTIAL).where(_C.user == user, _C.credential_id == credential_id)
        with changing(self._database) as (connection, _):
            found(connection, user)
            return connection.execute(gone).rowcount > 0

    def _is_same(self, present: Row[Any], user: str, wanted: Credential, secret: str) -> bool:
        """Whether a row is the wanted credential, whatever its note."""
        if (present.user, present.kind) != (user, wanted.kind):
            return False
        if present.kind != CREDENTIAL_KIND_ROCKETMQ_KEY:
            return bool(present.material == wanted.public_key)
        try:
            return compare_digest(self._opened(present).encode(), secret.encode())
        except ValueError:
            return False

    def _sealed(self, secret: str, user: str, credential: Credential) -> bytes:
        assert self._seal is not None  # noqa: S101 - asked before
        return self._seal.seal(secret, _owner(user, credential.credential_id))


def forget_credentials(connection: Connection, user: str) -> None:
    """Delete all credentials of a user, in the transaction that deletes him."""
    connection.execute(delete(ACCESS_CREDENTIAL).where(_C.user == user))


def public_keys(connection: Connection) -> dict[str, list[PublicKey]]:
    """The public keys of each user that has some."""
    keys: dict[str, list[PublicKey]] = {}
    asked = select(ACCESS_CREDENTIAL).where(_C.kind == CREDENTIAL_KIND_SIGNING_KEY)
    for row in connection.execute(asked.order_by(_C.credential_id)):
        key = PublicKey(credential_id=row.credential_id, public_key=row.material)
        if row.expire_ms is not None:
            key.expire_time.FromMilliseconds(row.expire_ms)
        keys.setdefault(row.user, []).append(key)
    return keys


def _owner(user: str, credential_id: str) -> str:
    return f"{user}:{credential_id}"


def _present(connection: Connection, credential_id: str) -> Row[Any] | None:
    asked = select(ACCESS_CREDENTIAL).where(_C.credential_id == credential_id)
    return connection.execute(asked).first()


def _credential_of(row: Row[Any]) -> Credential:
    return Credential(
        credential_id=row.credential_id,
        kind=row.kind,
        public_key=row.material if row.kind == CREDENTIAL_KIND_SIGNING_KEY else b"",
        description=row.description,
        create_time=time_of(row.created_ms),
        expire_time=None if row.expire_ms is None else time_of(row.expire_ms),
    )
