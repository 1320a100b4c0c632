"""The checker's schema, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select, text
from sqlalchemy.engine import make_url

from ariane_servicekit import SystemClock
from ariane_servicekit.database import (
    Database,
    DatabaseUnusable,
    SchemaNewer,
)
from ariane_txn_checker.database import (
    SCHEMA,
    Stretch,
    SurveyStore,
)
from ariane_txn_checker.database.tables import METADATA, TRANSACTION

VERSION_TABLE = SCHEMA.version_table
ALL = range(1_000_000)


def stretch(*halves, wait_ms=0, offsets=ALL, began_ms=0):
    return Stretch({each.transaction_id: (each, wait_ms) for each in halves}, offsets, began_ms)


def rows(database, table):
    with database.reading() as connection:
        return connection.execute(select(table)).all()


def test_the_revisions_make_the_tables_as_the_code_has_them(database):
    with database.reading() as connection:
        options = {
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, METADATA) == []
        assert VERSION_TABLE in inspect(connection).get_table_names()


async def test_a_second_start_changes_nothing(database, database_url, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    again = Database(database_url, SCHEMA, SystemClock())
    await again.open(wait_s=0)
    assert len(rows(again, TRANSACTION)) == 1
    again.close()


async def test_many_starts_at_once_make_one_schema(database_url):
    databases = [Database(database_url, SCHEMA, SystemClock()) for _ in range(4)]
    await asyncio.gather(*(each.open(wait_s=5) for each in databases))
    with databases[0].reading() as connection:
        versions = connection.execute(text(f"SELECT * FROM {VERSION_TABLE}")).all()  # noqa: S608 - a constant
    assert versions == [("0001",)]
    for each in databases:
        each.close()


async def test_a_later_versions_schema_is_refused(database, database_url):
    with database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))  # noqa: S608 - a constant
    older = Database(database_url, SCHEMA, SystemClock())
    with pytest.raises(SchemaNewer, match="9999"):
        await older.open(wait_s=0)
    older.close()


async def test_a_postgresql_that_takes_any_bytes_for_text_is_read_as_utf8(postgresql_url):
    server = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(
            text("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C'")
        )
    server.dispose()
    url = make_url(postgresql_url).set(database="ascii").render_as_string(hide_password=False)
    database = Database(url, SCHEMA, SystemClock())
    await database.open(wait_s=0)
    with database.reading() as connection:
        assert connection.scalar(text("SELECT 'Ångström'")) == "Ångström"
    database.close()


@pytest.mark.parametrize(
    ("own", "used_ms"), [({}, "10000"), ({"tcp_user_timeout": "3000"}, "3000")]
)
def test_a_postgresql_that_is_cut_off_fails_calls_soon(postgresql_url, own, used_ms):
    url = make_url(postgresql_url).update_query_dict(own).render_as_string(hide_password=False)
    database = Database(url, SCHEMA, SystemClock())
    with database.reading() as connection:
        options = connection.connection.driver_connection.info.get_parameters()
    database.close()
    assert options["tcp_user_timeout"] == used_ms
    assert {options[f"keepalives_{name}"] for name in ("idle", "interval", "count")} == {"10", "3"}


@pytest.mark.parametrize(
    ("url", "words"),
    [("nonsense", "none of SQLAlchemy's"), ("mysql://localhost/x", "mysql: the database is")],
)
def test_a_database_of_another_kind_is_refused(url, words):
    with pytest.raises(DatabaseUnusable, match=words):
        Database(url, SCHEMA, SystemClock())


async def test_an_unreachable_database_is_told_without_its_password():
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/x?sslpassword=secret"
    database = Database(url, SCHEMA, SystemClock())
    with pytest.raises(DatabaseUnusable) as refused:
        await database.open(wait_s=0)
    assert "me:***@127.0.0.1" in str(refused.value)
    assert "secret" not in str(refused.value)
    database.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_connections_that_the_server_dropped_are_made_anew(database, lease, half):
    with database.reading() as connection:
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
    killer = create_engine(database._engine.url)
    with killer.connect() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    killer.dispose()
    assert SurveyStore(database).take_in(lease, stretch(half())) == 1
