"""Operators' calls to a replica set: its status, and changes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

from ariane_broker.errors.replication import (
    broker_not_primary,
    replica_not_found,
    replica_not_in_sync,
    replica_set_changed,
    replica_too_slow,
)
from ariane_broker.replication.copies import Copy
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import SharedRow
from ariane_servicekit.errors import field_invalid

ROW_AWAY: Final = "the database of the replica set is away"


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The status of a set, as one broker sees it."""

    broker_id: int
    """The broker."""
    replica_set: ReplicaSet
    """The row as it was read last."""
    copies: Sequence[Copy]
    """A primary's record of its replicas; empty on a replica."""
    has_lease: bool
    """Whether the broker is primary now."""
    now_s: float
    """The time of this status, by the monotonic clock."""
    trouble: str = ""
    """Why a replica does not follow, or a primary has no lease; empty if all is well."""
    is_row_away: bool = False
    """Whether the database was away at the last attempt."""
    in_sync_min: int = 1
    """The least brokers in sync without which a primary takes no messages."""


class SetOperations(Protocol):
    """The calls of operators that a broker answers."""

    @property
    def names(self) -> tuple[str, str]:
        """Cluster and broker name."""
        ...

    def status(self) -> SetStatus:
        """The status of the set."""
        ...

    async def transfer(self, broker_id: int, *, grace_s: float) -> ReplicaSet:
        """Hand the primary's role over; return the row after it."""
        ...

    async def elect(self, broker_id: int, *, unclean: bool) -> ReplicaSet:
        """Order an election; return the row after it."""
        ...

    async def remove(self, broker_id: int) -> ReplicaSet:
        """Remove a broker; return the row after it."""
        ...


async def order_election(row: SharedRow, broker_id: int, *, unclean: bool) -> ReplicaSet:
    """Write into the row which broker shall be the next primary.

    Raises:
        ServiceError: REPLICA_NOT_FOUND, REPLICA_NOT_IN_SYNC, REPLICA_SET_CHANGED.
    """
    found = await row.read()
    if found is None or broker_id not in found.addresses:
        raise replica_not_found(broker_id)
    if broker_id not in found.in_sync and not unclean:
        raise replica_not_in_sync(broker_id)
    changed = found.wanting(broker_id, unclean=unclean)
    if not await row.change(changed):
        raise replica_set_changed(found.version)
    return changed


@dataclass(frozen=True, slots=True, eq=False)
class PrimaryOperations:
    """The calls of operators, as a primary answers them."""

    names: tuple[str, str]
    """Cluster and broker name."""
    primary: Primary
    row: SharedRow
    _: KW_ONLY
    monotonic: Callable[[], float]
    save_state: Callable[[], Awaitable[None]]
    """Saves the state that replicas need before the reign is handed over."""
    say_farewell: Callable[[], Awaitable[None]]
    """Has consumers store their offsets before."""
    on_resigned: Callable[[], None]
    """Called when the reign was handed over."""

    def status(self) -> SetStatus:
        """The status of the set."""
        primary = self.primary
        members = primary.copies.members
        return SetStatus(
            primary.reign.broker_id,
            primary.reign.replica_set,
            [members[one] for one in sorted(members)],
            has_lease=primary.reign.holds,
            now_s=self.monotonic(),
            trouble=self._trouble,
            is_row_away=primary.is_row_away,
            in_sync_min=primary.in_sync_min,
        )

    @property
    def _trouble(self) -> str:
        if self.primary.reign.holds:
            return ""
        why = f": {ROW_AWAY}" if self.primary.is_row_away else ""
        return f"its lease is over, it takes no messages{why}"

    async def transfer(self, broker_id: int, *, grace_s: float) -> ReplicaSet:
        """Hand the primary's role over; return the row after it.

        Raises:
            ServiceError: REPLICA_NOT_FOUND, REPLICA_NOT_IN_SYNC, REPLICA_SET_CHANGED.
        """
        primary = self.primary
        reign = primary.reign
        if broker_id == reign.broker_id:
            return reign.replica_set
        if broker_id not in reign.replica_set.addresses:
            raise replica_not_found(broker_id)
        if broker_id not in reign.replica_set.in_sync:
            raise replica_not_in_sync(broker_id)
        if not await primary.hand_over(
            broker_id, grace_s=grace_s, save_state=self.save_state, say_farewell=self.say_farewell
        ):
            if reign.is_deposed:
                raise replica_set_changed(reign.replica_set.version)
            raise replica_too_slow(broker_id, grace_s)
        self.on_resigned()
        return reign.replica_set

    async def elect(self, broker_id: int, *, unclean: bool) -> ReplicaSet:
        """Order an election; return the row after it.

        Raises:
            ServiceError: REPLICA_NOT_FOUND, REPLICA_NOT_IN_SYNC, REPLICA_SET_CHANGED, and
                FIELD_INVALID while this primary lives: its next sign of life would end the order.
        """
        if self.primary.reign.holds:
            rule = "cannot be elected while there is a primary: hand its role over, or stop it"
            raise field_invalid("broker_id", rule, broker_id)
        return await order_election(self.row, broker_id, unclean=unclean)

    async def remove(self, broker_id: int) -> ReplicaSet:
        """Remove a broker; return the row after it.

        Raises:
            ServiceError: REPLICA_NOT_FOUND, FIELD_INVALID, REPLICA_SET_CHANGED.
        """
        primary = self.primary
        if broker_id not in primary.reign.replica_set.addresses:
            raise replica_not_found(broker_id)
        copy = primary.copies.members.get(broker_id)
        if copy is not None and copy.attached:
            raise field_invalid("broker_id", "is attached: stop that broker first", broker_id)
        if broker_id == primary.reign.broker_id:
            raise field_invalid("broker_id", "is the primary", broker_id)
        await primary.reign.remove(broker_id)
        if primary.reign.is_deposed:
            raise replica_set_changed(primary.reign.replica_set.version)
        primary.copies.forget(broker_id)
        return primary.reign.replica_set


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaOperations:
    """The calls of operators, as a replica answers them."""

    names: tuple[str, str]
    """Cluster and broker name."""
    row: SharedRow
    status: Callable[[], SetStatus]

    async def transfer(self, broker_id: int, *, grace_s: float) -> ReplicaSet:  # noqa: ARG002
        """Refuse: only the primary can do this.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        raise broker_not_primary(self.status().replica_set.primary_address)

    async def elect(self, broker_id: int, *, unclean: bool) -> ReplicaSet:
        """Order an election; return the row after it."""
        return await order_election(self.row, broker_id, unclean=unclean)

    async def remove(self, broker_id: int) -> ReplicaSet:  # noqa: ARG002
        """Refuse: only the primary can do this.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        raise broker_not_primary(self.status().replica_set.primary_address)
