"""Brings a database to this version's schema, and refuses one of a later version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util.exc import CommandError
from sqlalchemy import Connection, MetaData, text

from ariane_servicekit.database.errors import SchemaNewer


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a service, and their revisions."""

    application: str
    """Application name of the connections in PostgreSQL, such as "ariane-admin"."""
    tables: MetaData
    """The present tables."""
    versions: Path
    """The folder with Alembic's revisions."""
    version_table: str
    """Table with the revision, under a name of the service's own, because the database may be
    shared with other applications' migrations."""
    lock_number: int
    """PostgreSQL's advisory lock that migrations of this schema take."""


def migrate(connection: Connection, schema: Schema) -> None:
    """Bring the schema up to date, inside a writing transaction.

    Processes that start at the same time wait for one another: on SQLite the transaction itself is
    the lock.

    Raises:
        SchemaNewer: The database is of a version that this one does not know.
    """
    if connection.dialect.name == "postgresql":
        lock = {"number": schema.lock_number}
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), lock)
    versions = schema.versions
    scripts = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])
    _refuse_newer(connection, schema, scripts)

    def steps(heads: Any, _context: MigrationContext) -> object:
        # Alembic passes the contents of the version table in the form that it takes back.
        return scripts._upgrade_revs("head", heads)  # noqa: SLF001 - what its own command calls

    environment = EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head")
    environment.configure(
        connection=connection, target_metadata=schema.tables, version_table=schema.version_table
    )
    with environment.begin_transaction():
        environment.run_migrations()


def _refuse_newer(connection: Connection, schema: Schema, scripts: ScriptDirectory) -> None:
    options = {"version_table": schema.version_table}
    context = MigrationContext.configure(connection, opts=options)
    for revision in context.get_current_heads():
        try:
            known = scripts.get_revision(revision)
        except (CommandError, ResolutionError):
            known = None
        if known is None:
            raise SchemaNewer(revision)
