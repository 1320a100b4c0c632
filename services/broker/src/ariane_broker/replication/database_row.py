"""The shared row in its database: SQLite for one machine, or PostgreSQL for many.

::

    replica_set      one row for each broker name: the version, and the rest as JSON

Changes of the table need a revision below ``versions/``.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    String,
    Table,
    Text,
    and_,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_servicekit.database import Database, Schema

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s"})

NAME_LENGTH_MAX: Final = 255

REPLICA_SET: Final = Table(
    "replica_set",
    METADATA,
    Column("cluster_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("broker_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)

SCHEMA: Final = Schema(
    application="ariane-broker",
    tables=METADATA,
    versions=Path(__file__).with_name("versions"),
    version_table="ariane_broker_version",
    lock_number=0x41_52_42_52,
)


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class DatabaseRow:
    """The row of a broker name in a database."""

    def __init__(
        self, database: Database, cluster_name: str, broker_name: str, *, wait_s_max: float
    ) -> None:
        """``wait_s_max``: seconds after which a call that hangs is given up."""
        self._database = database
        self._wait_s_max = wait_s_max
        self._key = {"cluster_name": cluster_name, "broker_name": broker_name}
        columns = REPLICA_SET.c
        self._wanted = select(columns.version, columns.document).filter_by(**self._key)

    async def read(self) -> ReplicaSet | None:
        """The row; None before its first broker has created it."""
        return await self._call(self._read)

    async def change(self, changed: ReplicaSet) -> bool:
        """Replace the row if its version is still the one before."""
        return await self._call(self._change, changed)

    async def _call(
        self, work: Callable[_Given, _Result], *given: _Given.args, **named: _Given.kwargs
    ) -> _Result:
        try:
            async with asyncio.timeout(self._wait_s_max):
                return await self._database.call(work, *given, **named)
        except TimeoutError as error:
            self._database.cut()
            raise RowUnreachable(f"it did not answer within {self._wait_s_max:g} s") from error
        # SQLAlchemy does not wrap errors raised while a connection is set up.
        except (SQLAlchemyError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise RowUnreachable(" ".join(str(cause).split())) from error

    def _read(self) -> ReplicaSet | None:
        with self._database.reading() as connection:
            row = connection.execute(self._wanted).one_or_none()
        return None if row is None else ReplicaSet.of(int(row[0]), json.loads(row[1]))

    def _change(self, changed: ReplicaSet) -> bool:
        values = {"version": changed.version, "document": json.dumps(changed.document())}
        if changed.version == 1:
            return self._insert(values)
        columns = REPLICA_SET.c
        mine = and_(*(columns[name] == value for name, value in self._key.items()))
        seen = columns.version == changed.version - 1
        with self._database.writing() as connection:
            done = connection.execute(update(REPLICA_SET).where(mine, seen).values(values))
            return done.rowcount == 1

    def _insert(self, values: dict[str, object]) -> bool:
        try:
            with self._database.writing() as connection:
                connection.execute(insert(REPLICA_SET).values({**self._key, **values}))
        except IntegrityError:
            return False
        return True
