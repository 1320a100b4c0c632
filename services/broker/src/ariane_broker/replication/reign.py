"""A primary's lease: renewed in the shared row, and lost when that fails for too long.

The lease counts by this broker's monotonic clock, from before the row was changed; the others count
from after they read the change, and somewhat longer. So a primary that was paused, or cannot reach
the database, knows that its lease is over before another broker can be elected. From then on it
answers sends as unconfirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import SharedRow
from ariane_servicekit import get_logger

_log = get_logger(__name__)


class Reign:
    """The time of one primary in one epoch."""

    def __init__(
        self,
        row: SharedRow,
        elected: ReplicaSet,
        broker_id: int,
        *,
        elected_at_s: float,
        lease_s: float,
        monotonic: Callable[[], float],
        on_deposed: Callable[[], None],
    ) -> None:
        """Begin with the row as this broker's election made it.

        ``elected_at_s`` is when the election was requested, by the monotonic clock. ``on_deposed``
        is called once, when another broker is primary.
        """
        self.row = row
        """The shared row."""
        self._lease_s = lease_s
        self._monotonic = monotonic
        self._on_deposed = on_deposed
        self._lease_end_s = elected_at_s + lease_s
        self._is_deposed = False
        self._changing = asyncio.Lock()
        self.broker_id = broker_id
        """The primary."""
        self.replica_set = elected
        """The row as it was read or changed last."""
        self.epoch = elected.epoch
        self.mark = elected.marks.get(broker_id, 0)
        """The mark of the primary's store, which renewals write into the row."""

    @property
    def holds(self) -> bool:
        """Whether the lease lasts, so that no other broker can be primary now."""
        return not self._is_deposed and self._monotonic() < self._lease_end_s

    @property
    def is_deposed(self) -> bool:
        """Whether the reign is known to be over."""
        return self._is_deposed

    async def renew(self, confirmed: int) -> None:
        """Renew the lease, and tell how far the log is confirmed.

        Raises:
            RowUnreachable: The database is away.
        """
        await self._change(lambda row: row.renewed(confirmed, self.mark))

    async def change_in_sync(
        self, change: Callable[[frozenset[int]], frozenset[int]]
    ) -> frozenset[int]:
        """Add or remove members; return the new in-sync set.

        Raises:
            RowUnreachable: The database is away; whether it was done is unknown.
        """
        await self._change(
            lambda row: (
                row.with_in_sync(change(row.in_sync))
                if change(row.in_sync) != row.in_sync
                else None
            )
        )
        return self.replica_set.in_sync

    async def begin_log_at(self, begin: int) -> bool:
        """Announce that the log begins at a later offset; return whether that is known now.

        Raises:
            RowUnreachable: The database is away; whether it was done is unknown.
        """
        await self._change(lambda row: row.beginning_at(begin) if begin > row.begin else None)
        return not self._is_deposed and self.replica_set.begin >= begin

    async def remove(self, broker_id: int) -> None:
        """Remove a broker for good.

        Raises:
            ValueError: It is the last one in sync, or this one.
            RowUnreachable: The database is away.
        """
        await self._change(lambda row: row.removed(broker_id))

    async def resign(self, wanted_id: int | None) -> bool:
        """End the reign; return whether this call ended it.

        The lease is given up before the request: another broker may be elected before the answer
        arrives, or although none arrives. The next ``renew`` finds out.

        Raises:
            RowUnreachable: The database is away; whether the reign is over is unknown.
        """
        async with self._changing:
            self._lease_end_s = -inf
            if not await self._changed(lambda row: row.resigned(wanted_id), ends=True):
                return False
            self._is_deposed = True
        return True

    async def _change(self, make: Callable[[ReplicaSet], ReplicaSet | None]) -> None:
        async with self._changing:
            await self._changed(make)

    async def _changed(
        self, make: Callable[[ReplicaSet], ReplicaSet | None], *, ends: bool = False
    ) -> bool:
        """Change the current row; return whether it was changed."""
        while not self._is_deposed:
            begin_s = self._monotonic()
            changed = make(self.replica_set)
            if changed is None:
                return False
            if await self.row.change(changed):
                self.replica_set = changed
                if not ends:
                    self._lease_end_s = begin_s + self._lease_s
                return True
            found = await self.row.read()
            if found is None or (found.epoch, found.primary_id) != (self.epoch, self.broker_id):
                self._is_deposed = True
                _log.warning(
                    "primary_deposed",
                    epoch=self.epoch,
                    newer_epoch=found.epoch if found is not None else None,
                )
                self._on_deposed()
                return False
            self.replica_set = found
        return False
