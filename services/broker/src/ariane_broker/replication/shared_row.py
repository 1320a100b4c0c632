"""The shared row: read, and changed by compare-and-set, wherever it is kept."""

from __future__ import annotations

from typing import Protocol

from ariane_broker.replication.replica_set import ReplicaSet


class SharedRow(Protocol):
    """The row of one replica set, wherever it is kept."""

    async def read(self) -> ReplicaSet | None:
        """The row; None when nobody has begun it.

        Raises:
            Exception: The database is away.
        """
        ...

    async def change(self, changed: ReplicaSet) -> bool:
        """Put a row in the place of the one it was made from; False when that has changed.

        Raises:
            Exception: The database is away; nobody knows whether it was done.
        """
        ...
