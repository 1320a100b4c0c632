"""The shared row: read, and changed by compare-and-set, wherever it is kept."""

from __future__ import annotations

from typing import Protocol

from ariane_broker.replication.replica_set import ReplicaSet


class RowAway(Exception):
    """The database of the shared row cannot be reached, or does not do this now: in one line."""


class SharedRow(Protocol):
    """The row of one replica set, wherever it is kept."""

    async def read(self) -> ReplicaSet | None:
        """The row; None when nobody has begun it.

        Raises:
            RowAway: The database is away.
        """
        ...

    async def change(self, changed: ReplicaSet) -> bool:
        """Put a row in the place of the one it was made from; False when that has changed.

        Raises:
            RowAway: The database is away; nobody knows whether it was done.
        """
        ...
