"""Quotas in the database. Runs in a thread of the database's."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select

from ariane.common.v1.quota_pb2 import Quota
from ariane_admin.database.tables import ACCESS_QUOTA
from ariane_admin.users.rows import changing
from ariane_servicekit import field_invalid
from ariane_servicekit.database import Database
from ariane_servicekit.security.limits.meter import CREDENTIALS, USER

QUOTAS_MAX: Final = 10_000
"""Quotas of a cluster: every process gets all of them after each change."""

_Q: Final = ACCESS_QUOTA.c


class QuotaStore:
    """Keeps quotas; each change makes the version of the rules grow."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def quotas(self) -> list[Quota]:
        """All quotas, by figure, subject and name."""
        with self._database.reading() as connection:
            return quotas_of(connection)

    def find(self, quota: Quota) -> Quota | None:
        """The quota of the same figure, subject and name; None without one."""
        with self._database.reading() as connection:
            row = connection.execute(select(ACCESS_QUOTA).where(_is(quota))).first()
        return None if row is None else Quota(**row._mapping)  # noqa: SLF001 - SQLAlchemy's name.

    def put(self, quota: Quota) -> None:
        """Set a quota.

        Raises:
            ServiceError: FIELD_INVALID: there are as many as there may be.
        """
        with changing(self._database) as (connection, _):
            connection.execute(delete(ACCESS_QUOTA).where(_is(quota)))
            if len(quotas_of(connection)) >= QUOTAS_MAX:
                raise field_invalid("quota", f"must be one of {QUOTAS_MAX} at most")
            connection.execute(
                insert(ACCESS_QUOTA).values(
                    figure=quota.figure, subject=quota.subject, name=quota.name, limit=quota.limit
                )
            )

    def delete(self, quota: Quota) -> bool:
        """Delete a quota; return whether it was there."""
        with changing(self._database) as (connection, _):
            return connection.execute(delete(ACCESS_QUOTA).where(_is(quota))).rowcount > 0


def quotas_of(connection: Connection) -> list[Quota]:
    """All quotas, by figure, subject and name."""
    asked = select(ACCESS_QUOTA).order_by(_Q.figure, _Q.subject, _Q.name)
    return [Quota(**row._mapping) for row in connection.execute(asked)]  # noqa: SLF001 - SQLAlchemy's.


def credentials_max(connection: Connection, user: str) -> int | None:
    """How many credentials a user may have; None for as many as anybody."""
    asked = select(_Q.name, _Q.limit).where(
        _Q.figure == CREDENTIALS, _Q.subject == USER, _Q.name.in_((user, ""))
    )
    found = {row.name: row.limit for row in connection.execute(asked)}
    return found.get(user, found.get(""))


def _is(quota: Quota) -> ColumnElement[bool]:
    return and_(_Q.figure == quota.figure, _Q.subject == quota.subject, _Q.name == quota.name)
