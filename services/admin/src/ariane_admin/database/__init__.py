"""The database of admin, in SQLite or PostgreSQL."""

from ariane_admin.database.tables import SCHEMA

__all__ = ["SCHEMA"]
