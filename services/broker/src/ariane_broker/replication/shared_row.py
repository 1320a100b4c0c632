"""The shared row: read, and changed by compare-and-set, wherever it is kept."""

from __future__ import annotations

from typing import Final, Protocol

from ariane_broker.errors.replication import row_away
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_servicekit import ErrorRules


class RowUnreachable(Exception):
    """The database of the shared row cannot be reached, or does not do this now: in one line."""


ROW_RULES: Final[ErrorRules] = {RowUnreachable: lambda error: row_away(str(error))}
"""What it becomes when it leaves the broker."""


class SharedRow(Protocol):
    """The row of one replica set, wherever it is kept."""

    async def read(self) -> ReplicaSet | None:
        """The row; None when nobody has begun it.

        Raises:
            RowUnreachable: The database is away.
        """
        ...

    async def change(self, changed: ReplicaSet) -> bool:
        """Put a row in the place of the one it was made from; False when that has changed.

        Raises:
            RowUnreachable: The database is away; nobody knows whether it was done.
        """
        ...
