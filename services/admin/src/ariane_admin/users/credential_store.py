"""Credentials of users in the database. Runs in a thread of the database's."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from ariane.admin.v1.user_service_pb2 import CREDENTIAL_KIND_SIGNING_KEY, Credential
from ariane.common.v1.access_rules_pb2 import PublicKey
from ariane_admin.database.tables import ACCESS_CREDENTIAL
from ariane_admin.servicers.times import time_of
from ariane_admin.users.rows import changing, found
from ariane_servicekit import field_invalid
from ariane_servicekit.database import Database

CREDENTIALS_MAX: Final = 64
"""Credentials of one user."""

_C: Final = ACCESS_CREDENTIAL.c


class CredentialStore:
    """Keeps credentials; each change makes the version of users grow."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, user: str, credential: Credential, expire_ms: int | None) -> Credential:
        """Create a credential. One that is there already, with the same key, stays as it is.

        Raises:
            ServiceError: USER_NOT_FOUND; FIELD_INVALID for an id that is taken, or one credential
                too many.
        """
        with changing(self._database) as (connection, _):
            found(connection, user)
            present = _present(connection, credential.credential_id)
            if present is not None:
                if (present.user, present.material) != (user, credential.public_key):
                    raise field_invalid(
                        "credential.credential_id",
                        "is that of another credential",
                        credential.credential_id,
                    )
                return _credential_of(present)
            count = select(func.count()).where(_C.user == user)
            if connection.execute(count).scalar_one() >= CREDENTIALS_MAX:
                raise field_invalid("user", f"has {CREDENTIALS_MAX} credentials; delete one", user)
            connection.execute(
                insert(ACCESS_CREDENTIAL).values(
                    credential_id=credential.credential_id,
                    user=user,
                    kind=credential.kind,
                    material=credential.public_key,
                    description=credential.description,
                    created_ms=self._database.now,
                    expire_ms=expire_ms,
                )
            )
            made = _present(connection, credential.credential_id)
            assert made is not None  # noqa: S101 - inserted above
            return _credential_of(made)

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


def _present(connection: Connection, credential_id: str) -> Row[Any] | None:
    asked = select(ACCESS_CREDENTIAL).where(_C.credential_id == credential_id)
    return connection.execute(asked).first()


def _credential_of(row: Row[Any]) -> Credential:
    return Credential(
        credential_id=row.credential_id,
        kind=row.kind,
        public_key=row.material,
        description=row.description,
        create_time=time_of(row.created_ms),
        expire_time=None if row.expire_ms is None else time_of(row.expire_ms),
    )
