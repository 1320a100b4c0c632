"""Users and policies in the database. Runs in a thread of the database's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from ariane.admin.v1.access_policy_service_pb2 import AccessPolicy
from ariane.admin.v1.user_service_pb2 import User
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.database.tables import (
    ACCESS_DELETED_USER,
    ACCESS_POLICY,
    ACCESS_USER,
    ACCESS_VERSION,
)
from ariane_admin.servicers.times import time_of
from ariane_admin.users.credential_store import forget_credentials, public_keys
from ariane_admin.users.policy_check import ROLE_PREFIX
from ariane_admin.users.quota_store import quotas_of
from ariane_admin.users.rows import changing, found
from ariane_admin.users.rules_room import check_room
from ariane_servicekit import ServiceError, field_invalid
from ariane_servicekit.database import Database

_U: Final = ACCESS_USER.c
_D: Final = ACCESS_DELETED_USER.c
_P: Final = ACCESS_POLICY.c
_V: Final = ACCESS_VERSION.c


class UserStore:
    """Keeps users and policies; several admins of one database share them.

    Each change makes their version grow.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self) -> int:
        """The version of all users and policies."""
        with self._database.reading() as connection:
            return int(connection.execute(select(_V.version)).scalar_one())

    def raise_version(self, known: int) -> None:
        """Let the version be greater than one that a process knows."""
        with self._database.writing() as connection:
            lower = update(ACCESS_VERSION).where(_V.version <= known)
            connection.execute(lower.values(version=known + 1))

    def rules(self) -> rules_pb.AccessRules:
        """All enabled users with their keys, names that stay out, all roles, and all quotas."""
        with self._database.reading() as connection:
            version = int(connection.execute(select(_V.version)).scalar_one())
            policies = {
                row.subject: AccessPolicy.FromString(row.policy)
                for row in connection.execute(select(ACCESS_POLICY))
            }
            keys = public_keys(connection)
            users = connection.execute(select(ACCESS_USER).where(_U.enabled).order_by(_U.name))
            made = rules_pb.AccessRules(version=version)
            for row in users:
                own = policies.get(row.name)
                made.users.add(
                    user=row.name,
                    kind=row.kind,
                    roles=json.loads(row.roles),
                    entries=() if own is None else own.entries,
                    keys=keys.get(row.name, ()),
                )
            disabled = select(_U.name).where(~_U.enabled)
            made.quotas.extend(quotas_of(connection))
            kept_out = disabled.union(select(_D.name)).order_by("name")
            made.disabled_users.extend(connection.execute(kept_out).scalars())
            for subject, policy in sorted(policies.items()):
                if subject.startswith(ROLE_PREFIX):
                    made.roles.add(role=subject.removeprefix(ROLE_PREFIX), entries=policy.entries)
        return made

    def create_user(self, user: User) -> User:
        """Create a user.

        Raises:
            ServiceError: USER_EXISTS, FIELD_INVALID for one too many.
        """
        with changing(self._database) as (connection, version):
            known = select(_U.name).where(_U.name == user.user)
            if connection.execute(known).first() is not None:
                raise ServiceError(
                    ErrorReason.ERROR_REASON_USER_EXISTS,
                    f"user {user.user} exists already",
                    {"user": user.user},
                )
            # Whoever had the name before left nothing behind.
            forget_credentials(connection, user.user)
            connection.execute(delete(ACCESS_POLICY).where(_P.subject == user.user))
            connection.execute(delete(ACCESS_DELETED_USER).where(_D.name == user.user))
            connection.execute(
                insert(ACCESS_USER).values(
                    name=user.user,
                    kind=user.kind,
                    enabled=user.enabled,
                    description=user.description,
                    roles=json.dumps(list(user.roles)),
                    version=version,
                    created_ms=self._database.now,
                )
            )
            check_room(connection)
            return _user_of(found(connection, user.user))

    def user(self, name: str) -> User:
        """Read a user.

        Raises:
            ServiceError: USER_NOT_FOUND.
        """
        with self._database.reading() as connection:
            return _user_of(found(connection, name))

    def users(self, *, after: str, limit: int) -> list[User]:
        """Users by name, behind a name."""
        asked = select(ACCESS_USER).where(_U.name > after).order_by(_U.name).limit(limit)
        with self._database.reading() as connection:
            return [_user_of(row) for row in connection.execute(asked)]

    def update_user(self, name: str, known_version: int, values: dict[str, Any]) -> User:
        """Change columns of a user.

        Raises:
            ServiceError: USER_NOT_FOUND, RESOURCE_CHANGED, FIELD_INVALID for the last super user,
                and where all users together become too large.
        """
        with changing(self._database) as (connection, version):
            row = found(connection, name)
            _check_version(name, row.version, known_version)
            changed = update(ACCESS_USER).where(_U.name == name)
            connection.execute(changed.values(version=version, **values))
            _check_super(connection, row)
            if len(values.get("roles", "")) > len(row.roles):  # Nothing bars from taking away.
                check_room(connection)
            return _user_of(found(connection, name))

    def delete_user(self, name: str) -> None:
        """Delete a user with its credentials and its policy; the name stays out.

        Else an OpenID provider could let in again, by its groups, who was disabled or denied
        something here.

        Raises:
            ServiceError: USER_NOT_FOUND, FIELD_INVALID for the last super user.
        """
        with changing(self._database) as (connection, _):
            row = found(connection, name)
            forget_credentials(connection, name)
            connection.execute(delete(ACCESS_POLICY).where(_P.subject == name))
            connection.execute(delete(ACCESS_USER).where(_U.name == name))
            connection.execute(insert(ACCESS_DELETED_USER).values(name=name))
            _check_super(connection, row)

    def policy(self, subject: str) -> AccessPolicy:
        """Read the policy of a user or role; the empty one if there is none.

        Raises:
            ServiceError: USER_NOT_FOUND.
        """
        with self._database.reading() as connection:
            if not subject.startswith(ROLE_PREFIX):
                found(connection, subject)
            return _policy(connection, subject)

    def policies(self, *, after: str, limit: int) -> list[AccessPolicy]:
        """Policies that are not empty by subject, behind a subject."""
        asked = select(ACCESS_POLICY).where(_P.subject > after).order_by(_P.subject).limit(limit)
        with self._database.reading() as connection:
            return [_policy_of(row) for row in connection.execute(asked)]

    def update_policy(
        self, subject: str, entries: Sequence[rules_pb.AccessEntry], known_version: int
    ) -> AccessPolicy:
        """Replace a policy.

        Raises:
            ServiceError: USER_NOT_FOUND, RESOURCE_CHANGED, FIELD_INVALID where all policies
                together become too large.
        """
        with changing(self._database) as (connection, version):
            if not subject.startswith(ROLE_PREFIX):
                found(connection, subject)
            present = _policy(connection, subject)
            _check_version(subject, present.version, known_version)
            connection.execute(delete(ACCESS_POLICY).where(_P.subject == subject))
            if not entries:
                return AccessPolicy(user=subject)
            policy = AccessPolicy(user=subject, entries=entries)
            connection.execute(
                insert(ACCESS_POLICY).values(
                    subject=subject, policy=policy.SerializeToString(), version=version
                )
            )
            if policy.ByteSize() > present.ByteSize():  # Nothing bars from taking away.
                check_room(connection)
            policy.version = version
            return policy


def _check_version(name: str, present: int, known: int) -> None:
    if known and known != present:
        raise ServiceError(
            ErrorReason.ERROR_REASON_RESOURCE_CHANGED,
            f"{name} was changed meanwhile: it has version {present}, not {known}",
            {"user": name, "version": present},
        )


def _check_super(connection: Connection, before: Row[Any]) -> None:
    """Refuse to lose the last enabled super user."""
    if before.kind != rules_pb.USER_KIND_SUPER or not before.enabled:
        return
    count = select(func.count()).where(_U.kind == rules_pb.USER_KIND_SUPER, _U.enabled)
    if not connection.execute(count).scalar_one():
        raise field_invalid("user", f"{before.name} is the last super user that is enabled")


def _policy(connection: Connection, subject: str) -> AccessPolicy:
    row = connection.execute(select(ACCESS_POLICY).where(_P.subject == subject)).first()
    return AccessPolicy(user=subject) if row is None else _policy_of(row)


def _policy_of(row: Row[Any]) -> AccessPolicy:
    policy = AccessPolicy.FromString(row.policy)
    policy.version = row.version
    return policy


def _user_of(row: Row[Any]) -> User:
    return User(
        user=row.name,
        kind=row.kind,
        enabled=row.enabled,
        description=row.description,
        version=row.version,
        create_time=time_of(row.created_ms),
        roles=json.loads(row.roles),
    )
