"""The row that brokers of one name share: the primary, its epoch, and the brokers in sync.

The row changes by compare-and-set only, so that each writer has seen the previous change. The
meaning of each change is defined here, by plain functions of the row::

              epoch  primary  in sync     renewals
    begun       1      0      {0}             1      the broker with id 0 makes the row
    joined      1      0      {0,1}           7      the primary added a replica that has all
    elected     2      1      {1}             8      broker 0 was silent for a lease
    joined      2      1      {0,1}          21      broker 0 is back, cut its end, has all

* Only a member of the in-sync set can be elected, because members have all confirmed records. An
  operator may order the election of another broker; records that only the others have are lost.
* An election removes the previous primary from the set, so that no append waits for a dead one.
* Only the primary adds members. A broker that may have lost records removes itself.
* ``renewals`` counts the renewals of the lease. No clocks are compared: the primary counts its
  lease from before its write, the others from after their read. They wait for the writer's lease.
* An order for the next primary is for a set without a primary: each change by a primary ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self


class BrokerWish(NamedTuple):
    """What an operator has set of one broker, for elections."""

    preference: int = 0
    """The broker with the highest preference, of those that can be primary, is to be it."""
    zone: str = ""
    """Its machine room or zone; empty if it is not known."""


class ReadableReplica(NamedTuple):
    """A replica that can be read."""

    address: str
    """Its address."""
    zone: str = ""
    """Its machine room; empty if it is not known."""


NO_WISH: Final = BrokerWish()

IN_SYNC: Final = "in-sync"
"""The name by which the health service tells whether the set relies on a broker."""


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """The shared row."""

    version: int = 0
    """Grows with every change; the compare in compare-and-set."""
    epoch: int = 0
    """The epoch of the primary; of the last one while there is none."""
    primary_id: int | None = None
    """Broker id of the primary; None while there is none."""
    in_sync: frozenset[int] = frozenset()
    """The ids of the brokers with all confirmed records; never empty."""
    renewals: int = 0
    """The number of renewals by primaries."""
    addresses: Mapping[int, str] = field(default_factory=dict)
    """The replication addresses of all brokers that ever joined, by broker id."""
    wanted_id: int | None = None
    """The broker with priority in the next election, named by the previous primary or an operator;
    None: any."""
    unclean: bool = False
    """Whether only ``wanted_id`` can be elected, although it is not in sync."""
    lease_s: float = 0.0
    """The lease of the primary in seconds; 0 before the first primary."""
    set_id: str = ""
    """The id of the set, which its logs carry, too: epochs alone do not tell sets apart."""
    begin: int = 0
    """Commit-log offset at which the log begins; retention may have deleted all before."""
    confirmed: int = 0
    """Commit-log offset up to which all in sync had the log at the last renewal. A broker whose log
    ends before has lost records."""
    marks: Mapping[int, int] = field(default_factory=dict)
    """The mark of each broker's store (``StoreMark``). One that comes with a lower mark was put
    back to an earlier state."""
    rivals: Mapping[int, str] = field(default_factory=dict)
    """Addresses of processes that take no part because another one has their id: the last one of
    each id. They may have ended."""
    wishes: Mapping[int, BrokerWish] = field(default_factory=dict)
    """What operators have set of each broker."""

    @property
    def primary_address(self) -> str:
        """The primary's address; empty while there is none."""
        return "" if self.primary_id is None else self.addresses.get(self.primary_id, "")

    @property
    def routed_replicas(self) -> Mapping[int, str]:
        """Addresses of replicas by the broker ids of routes, in which the primary always has id 0.

        A replica whose own id is 0 is listed under the id of its primary.
        """
        return {
            one or self.primary_id or 0: where
            for one, where in self.addresses.items()
            if one != self.primary_id
        }

    def route_id(self, broker_id: int) -> int:
        """The id of a replica in routes while there is no primary: never 0."""
        return broker_id or max(self.addresses, default=0) + 1

    def may_elect(self, broker_id: int) -> bool:
        """Whether a broker can become primary of this set once there is no other.

        The wanted broker goes first (``Candidacy``). After an operator's unclean order no other one
        can be elected, because the operator has accepted the loss of what the others have.
        """
        if self.unclean:
            return broker_id == self.wanted_id
        return broker_id in self.in_sync

    def preference(self, broker_id: int) -> int:
        """How much a broker is preferred as primary."""
        return self.wishes.get(broker_id, NO_WISH).preference

    def has_better(self, broker_id: int) -> bool:
        """Whether another one in sync is to follow on a dead primary rather than this broker.

        It is preferred; or, of those that are equal in that, it is in another zone than the dead
        one, while this broker is in the same: what has ended the one may be about to end the other.
        """
        dead = NO_WISH if self.primary_id is None else self.wishes.get(self.primary_id, NO_WISH)

        def rank(one: int) -> tuple[int, bool]:
            wish = self.wishes.get(one, NO_WISH)
            return wish.preference, not dead.zone or wish.zone != dead.zone

        others = self.in_sync - {self.primary_id, broker_id}
        return any(rank(one) > rank(broker_id) for one in others)

    # Changes.

    def begun(
        self, broker_id: int, address: str, *, set_id: str, epoch: int = 0, begin: int = 0
    ) -> Self:
        """The row of a new set with its first broker.

        Args:
            broker_id: The broker.
            address: Its address.
            set_id: The id of the set.
            epoch: The newest epoch that any log of the set may have.
            begin: The begin of its log.
        """
        return self._changed(
            epoch=epoch,
            in_sync=frozenset({broker_id}),
            addresses={broker_id: address},
            set_id=set_id,
            begin=begin,
        )

    def at(self, broker_id: int, address: str, wish: BrokerWish = NO_WISH) -> Self:
        """The row with a broker's new address, and what its operator has set."""
        rivals = {one: where for one, where in self.rivals.items() if where != address}
        return self._changed(
            addresses={**self.addresses, broker_id: address},
            rivals=rivals,
            wishes={**self.wishes, broker_id: wish},
        )

    def marked(self, broker_id: int, mark: int) -> Self:
        """The row with the mark of a broker's store, which is durable there."""
        return self._changed(marks={**self.marks, broker_id: mark})

    def refusing(self, broker_id: int, address: str) -> Self:
        """The row with a process that takes no part, because another one has its id."""
        return self._changed(rivals={**self.rivals, broker_id: address})

    def elected(self, broker_id: int, epoch: int, *, lease_s: float = 0.0) -> Self:
        """The row with a new primary; the previous one is removed from the in-sync set.

        Args:
            broker_id: The new primary.
            epoch: Its epoch, above the row's and above all epochs in the broker's log.
            lease_s: Its lease in seconds.

        Raises:
            ValueError: It cannot be elected, or not in that epoch.
        """
        if not self.may_elect(broker_id) or epoch <= self.epoch:
            raise ValueError(f"broker {broker_id} cannot be elected in epoch {epoch}")
        in_sync, confirmed = self.in_sync - {self.primary_id} | {broker_id}, self.confirmed
        if broker_id not in self.in_sync:
            # The others may have records that this one lacks.
            in_sync, confirmed = frozenset({broker_id}), 0
        return self._changed(
            epoch=epoch,
            primary_id=broker_id,
            in_sync=frozenset(in_sync),
            renewals=self.renewals + 1,
            wanted_id=None,
            unclean=False,
            lease_s=lease_s,
            confirmed=confirmed,
        )

    def renewed(self, confirmed: int, mark: int = 0) -> Self:
        """The row with one more renewal of the lease.

        Args:
            confirmed: How far the log is confirmed.
            mark: The mark of the primary's store; 0: as before.
        """
        marks = self.marks
        if mark and self.primary_id is not None:
            marks = {**marks, self.primary_id: mark}
        return self._by_primary(renewals=self.renewals + 1, confirmed=confirmed, marks=marks)

    def beginning_at(self, begin: int) -> Self:
        """The row with a later begin of the log: nobody deletes anything before it says so."""
        return self._by_primary(begin=max(begin, self.begin), renewals=self.renewals + 1)

    def with_in_sync(self, in_sync: frozenset[int]) -> Self:
        """The row with a new in-sync set, which must hold the primary."""
        if self.primary_id not in in_sync:
            raise ValueError("a primary is in sync with itself")
        return self._by_primary(in_sync=in_sync, renewals=self.renewals + 1)

    def without(self, broker_id: int) -> Self:
        """The row without a broker that may have lost records; the last in sync cannot leave."""
        if self.in_sync == {broker_id}:
            raise ValueError("the last one in sync cannot leave")
        primary_id = None if self.primary_id == broker_id else self.primary_id
        return self._changed(in_sync=self.in_sync - {broker_id}, primary_id=primary_id)

    def resigned(self, wanted_id: int | None) -> Self:
        """The row without a primary, perhaps with a wanted one. The earlier one stays in sync."""
        return self._by_primary(primary_id=None, wanted_id=wanted_id)

    def wanting(self, broker_id: int, *, unclean: bool) -> Self:
        """The row with an operator's order for the next primary, if no primary is live."""
        return self._changed(wanted_id=broker_id, unclean=unclean)

    def removed(self, broker_id: int) -> Self:
        """The row without a broker that an operator has given up, by the primary."""
        if self.primary_id == broker_id or self.in_sync == {broker_id}:
            raise ValueError("neither the primary nor the last one in sync can be removed")
        addresses = {one: where for one, where in self.addresses.items() if one != broker_id}
        marks = {one: mark for one, mark in self.marks.items() if one != broker_id}
        wishes = {one: wish for one, wish in self.wishes.items() if one != broker_id}
        return self._by_primary(
            in_sync=self.in_sync - {broker_id}, addresses=addresses, marks=marks, wishes=wishes
        )

    def _by_primary(self, **fields: Any) -> Self:
        return self._changed(**{"wanted_id": None, "unclean": False, **fields})

    def _changed(self, **fields: Any) -> Self:
        return replace(self, version=self.version + 1, **fields)

    # The form in the database.

    def document(self) -> dict[str, Any]:
        """All but the version, as JSON."""
        return {
            "epoch": self.epoch,
            "primary_id": self.primary_id,
            "in_sync": sorted(self.in_sync),
            "renewals": self.renewals,
            "addresses": {str(one): where for one, where in sorted(self.addresses.items())},
            "wanted_id": self.wanted_id,
            "unclean": self.unclean,
            "lease_s": self.lease_s,
            "set_id": self.set_id,
            "begin": self.begin,
            "confirmed": self.confirmed,
            "marks": {str(one): mark for one, mark in sorted(self.marks.items())},
            "rivals": {str(one): where for one, where in sorted(self.rivals.items())},
            "wishes": {str(one): list(wish) for one, wish in sorted(self.wishes.items())},
        }

    @classmethod
    def of(cls, version: int, document: Mapping[str, Any]) -> Self:
        """Restore a row from its ``document``."""
        return cls(
            version=version,
            epoch=int(document["epoch"]),
            primary_id=document["primary_id"],
            in_sync=frozenset(document["in_sync"]),
            renewals=int(document["renewals"]),
            addresses={int(one): where for one, where in document["addresses"].items()},
            wanted_id=document["wanted_id"],
            unclean=bool(document["unclean"]),
            lease_s=float(document["lease_s"]),
            set_id=document["set_id"],
            begin=int(document["begin"]),
            confirmed=int(document["confirmed"]),
            marks={int(one): int(mark) for one, mark in document["marks"].items()},
            rivals={int(one): where for one, where in document["rivals"].items()},
            wishes={int(one): BrokerWish(*wish) for one, wish in document["wishes"].items()},
        )
