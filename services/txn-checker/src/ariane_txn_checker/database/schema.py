"""Brings a database to this version's schema, and refuses one of a later version."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from ariane_txn_checker.database.tables import METADATA
from ariane_txn_checker.errors import SchemaNewer

VERSION_TABLE: Final = "ariane_txn_checker_version"
"""A name of our own: the database may be shared with other applications' migrations."""

_LOCK_NUMBER: Final = 0x0A21_A4E7_C43C
"""PostgreSQL's advisory locks have numbers; this one is ours."""

_FOLDER: Final = Path(__file__).parent


def migrate(connection: Connection) -> None:
    """Bring the schema up to date, inside a writing transaction.

    Checkers that start at the same time wait for one another: on SQLite the transaction itself is
    the lock.

    Raises:
        SchemaNewer: The database is of a version that this one does not know.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
    scripts = ScriptDirectory(str(_FOLDER), version_locations=[str(_FOLDER / "versions")])
    _refuse_newer(connection, scripts)

    def steps(heads: Any, _context: MigrationContext) -> object:
        # Alembic hands over what the version table says, as it likes to have it back.
        return scripts._upgrade_revs("head", heads)  # noqa: SLF001 - what its own command calls

    environment = EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head")
    environment.configure(
        connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE
    )
    with environment.begin_transaction():
        environment.run_migrations()


def _refuse_newer(connection: Connection, scripts: ScriptDirectory) -> None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    for revision in context.get_current_heads():
        try:
            known = scripts.get_revision(revision)
        except (CommandError, ResolutionError):
            known = None
        if known is None:
            raise SchemaNewer(revision)
