"""The shared row: read, and changed by compare-and-set, in any kind of storage."""

from __future__ import annotations

from typing import Final, Protocol

from ariane_broker.errors.replication import row_away
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_servicekit import ErrorRules


class RowUnreachable(Exception):
    """The database of the shared row is unreachable or refuses; the text is one line."""


ROW_RULES: Final[ErrorRules] = {RowUnreachable: lambda error: row_away(str(error))}
"""The public error for it."""


class SharedRow(Protocol):
    """The row of one replica set."""

    async def read(self) -> ReplicaSet | None:
        """The row; None before its first broker has created it.

        Raises:
            RowUnreachable: The database is away.
        """
        ...

    async def change(self, changed: ReplicaSet) -> bool:
        """Replace the row if its version is still the one before; False if it has changed.

        Raises:
            RowUnreachable: The database is away; whether it was done is unknown.
        """
        ...
