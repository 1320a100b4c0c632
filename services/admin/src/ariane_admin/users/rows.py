"""What the stores of users share: one order of all changes, and the row of a user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, select, update

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.database.tables import ACCESS_USER, ACCESS_VERSION
from ariane_admin.users.policy_check import ROLE_PREFIX
from ariane_servicekit import ServiceError
from ariane_servicekit.database import Database


@contextmanager
def changing(database: Database) -> Iterator[tuple[Connection, int]]:
    """A transaction that changes users, and the version that it makes.

    It locks the one row of the version and makes it grow: so changes are in an order, and a process
    that has a version has all changes before it.
    """
    version = ACCESS_VERSION.c.version
    with database.writing() as connection:
        connection.execute(update(ACCESS_VERSION).values(version=version + 1))
        made = connection.execute(select(version)).scalar_one()
        yield connection, int(made)


def subjects_of(user: str, roles: str) -> list[str]:
    """The subjects of the policies that hold for a user, whose roles are as its row has them."""
    return [user, *(ROLE_PREFIX + role for role in json.loads(roles))]


def found(connection: Connection, name: str) -> Row[Any]:
    """The row of a user.

    Raises:
        ServiceError: USER_NOT_FOUND.
    """
    row = connection.execute(select(ACCESS_USER).where(ACCESS_USER.c.name == name)).first()
    if row is None:
        raise ServiceError(
            ErrorReason.ERROR_REASON_USER_NOT_FOUND, f"there is no user {name!r}", {"user": name}
        )
    return row
