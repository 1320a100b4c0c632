"""A service's database: SQLite in a file or PostgreSQL. Needs the extra ``database``."""

from ariane_servicekit.database.engine import Database
from ariane_servicekit.database.errors import DatabaseError, DatabaseUnusable, SchemaNewer
from ariane_servicekit.database.public_errors import DATABASE_ERROR_RULES
from ariane_servicekit.database.schema import Schema

__all__ = [
    "DATABASE_ERROR_RULES",
    "Database",
    "DatabaseError",
    "DatabaseUnusable",
    "Schema",
    "SchemaNewer",
]
