"""What admin keeps, in SQLite or PostgreSQL."""

from ariane_admin.database.tables import SCHEMA

__all__ = ["SCHEMA"]
