"""Errors of a service's database.

::

    DatabaseError
    ├── SchemaNewer           a later version made the database; this one does not touch it
    └── DatabaseUnusable      the database's URL or answer is invalid
"""

from __future__ import annotations

from ariane_servicekit.errors import ServicekitError


class DatabaseError(ServicekitError):
    """A service cannot use its database."""


class SchemaNewer(DatabaseError):
    """A later version made the database."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database is of a later version (revision {revision!r}); "
            "start a service of that version, or give this one a database of its own"
        )
        self.revision = revision
        """The database's revision."""


class DatabaseUnusable(DatabaseError):
    """The database's URL or answer is invalid. The text is one line, without a password."""
