"""A replica's part in its set: it registers, leaves the in-sync set after losses, and is elected.

After a power loss a broker may lack the end of its log, on which others rely: under asynchronous
flush it first leaves the in-sync set, unless it is the only member. A broker with a new store in an
older set does the same; if it is the only one in sync, it waits until an operator decides between
it and the brokers with older logs.

A broker whose disk is so full that retention would delete fresh messages leaves the set as well:
a replica deletes only what its primary has deleted.

A broker whose store was put back to an earlier state, from a backup or a snapshot, leaves the set,
too: the row knows the mark of the store that the set relies on (``StoreMark``).

A broker whose store belongs to another set takes no part at all: somebody has pointed it to the
wrong store, or emptied the database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ariane_broker.replication.log_taker import other_set
from ariane_broker.replication.replica_set import NO_WISH, BrokerWish, ReplicaSet
from ariane_broker.replication.room import Elected
from ariane_broker.replication.shared_row import SharedRow
from ariane_broker.replication.store_mark import StoreMark
from ariane_servicekit import get_logger

ORPHAN_LEASES: Final = 3
"""Leases without a renewal after which a set has no primary: an election takes one or two."""

EPOCHS_LEFT_OUT: Final = 1_000
"""The epochs to skip if a set begins anew: brokers that are away may have seen some."""

PATIENCE: Final = 1.05
"""Leases without a renewal after which a primary counts as gone: clocks may differ in speed, by
5 %."""

HEAD_START: Final = 0.5
"""Leases for which a better broker may have itself elected first."""


_log = get_logger(__name__)


class OwnLog(NamedTuple):
    """What a broker's own log is at some moment."""

    set_id: str
    """The set that it belongs to; empty for a new one."""
    epoch: int
    """Its newest epoch; 0 if it has none."""
    begin: int
    """Its begin."""
    end: int
    """Its end."""
    confirmed: int
    """The confirmed offset known from primaries."""
    is_damaged: bool = False
    """Whether it has ranges that are known to be damaged or missing."""
    pressure: str = ""
    """Why it cannot grow; empty if it can."""


class OwnStore(NamedTuple):
    """What a broker's own store is, as it was found at the start."""

    log: Callable[[], OwnLog]
    """Returns the present state of its log."""
    mark: StoreMark
    """Its mark."""
    is_new: bool
    """Whether its log has no epoch yet."""
    may_lack_end: bool
    """Whether its log may have lost records on which the set relies."""
    has_agreed: Callable[[], bool]
    """Returns whether a primary has learnt what this log is now. Until then it may count on what an
    earlier process has reported, and take this broker in for that."""
    settle: Callable[[], Awaitable[None]]
    """Awaited once the set no longer relies on records that may be lost: the next start need not
    look for them."""


class Member(NamedTuple):
    """A broker as a member of its set."""

    broker_id: int
    """Its id."""
    address: str
    """Where others reach it."""
    wish: BrokerWish = NO_WISH
    """What the operator has set of it."""


class Standing:
    """One broker's part in the shared row while it is not primary."""

    def __init__(
        self,
        row: SharedRow,
        member: Member,
        store: OwnStore,
        *,
        lease_s: float,
        begins_anew: bool,
        draw_set_id: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        """``begins_anew``: whether this broker begins the set although its log has epochs.

        ``draw_set_id`` returns the id of a set that begins.
        """
        self._row = row
        self._broker_id, self._address, self._wish = member
        self._log, self._mark, self._is_new, self._may_lack_end = store[:4]
        self._has_agreed, self._settle = store.has_agreed, store.settle
        self._lease_s = lease_s
        self._begins_anew = begins_anew
        self._marked_s = 0.0
        self._draw_set_id = draw_set_id
        self._monotonic = monotonic
        self._candidacy = Candidacy(member.broker_id, lease_s=lease_s)
        self._had_place = self._had_agreed = False
        self._is_settled = False
        self._is_marked = False
        self._is_refusal_noted = False
        self.replica_set: ReplicaSet | None = None
        """The row as it was read last; None before there is one."""
        self.trouble = ""
        """Why it takes no part in the set; empty if it does."""

    @property
    def has_primary(self) -> bool:
        """Whether the set has a primary, or had one some leases ago; as far as was read."""
        return not self._candidacy.has_lapsed(self._monotonic(), ORPHAN_LEASES)

    @property
    def may_follow(self) -> bool:
        """Whether the log may be filled: not while the set relies on records it may have lost."""
        found = self.replica_set
        if found is None or not self._is_marked:
            return False
        return not self.trouble and not self._must_leave(found)

    async def turn(self) -> Elected | None:
        """Read the row, and make the change that is due.

        Returns:
            The election, if this broker has won it now.

        Raises:
            RowUnreachable: The database is away.
        """
        self._had_agreed = self._has_agreed()  # Before the row is read.
        found = await self._row.read()
        now_s = self._monotonic()
        if found is None:
            await self._begin()
            return None
        self.replica_set = found
        self._candidacy.observe(found, now_s)
        log = self._log()
        if log.set_id not in {"", found.set_id}:
            self._refuse_set(log.set_id, found.set_id)
        elif found.addresses.get(self._broker_id) != self._address:
            await self._take_place(found, now_s)
        elif found.wishes.get(self._broker_id, NO_WISH) != self._wish:
            await self._row.change(found.at(self._broker_id, self._address, self._wish))
        elif await self._may_stay(found) and (marked := await self._marked(found)) is not None:
            self.replica_set = marked
            if self._candidacy.may_stand(marked, now_s):
                return await self._stand(marked, log)
        return None

    async def _may_stay(self, found: ReplicaSet) -> bool:
        """Whether the set may rely on this broker; leaves the in-sync set if not."""
        self._had_place = True
        if self._must_leave(found):
            await self._leave(found)
            return False
        if self._broker_id in found.in_sync:
            self._is_settled = True
        elif self._had_agreed or found.primary_id is None:
            await self._has_settled()  # It is added again only once it has all.
        self.trouble = self._log().pressure
        return True

    async def _marked(self, found: ReplicaSet) -> ReplicaSet | None:
        """The row with the mark of this store; None if another broker has changed the row.

        The mark is raised first of all, and once a lease from then on.
        """
        now_s = self._monotonic()
        if not self._is_marked:
            try:
                await self._mark.raise_above(found.marks.get(self._broker_id, 0))
            except OSError as error:
                self.trouble = f"its store cannot be written ({error.strerror}), nor relied on"
                return None
        elif len(found.addresses) > 1 and now_s - self._marked_s >= self._lease_s:
            await self._mark.tend()
        else:
            return found
        marked = found.marked(self._broker_id, self._mark.value)
        if not await self._row.change(marked):
            return None
        self._is_marked, self._marked_s = True, now_s
        return marked

    async def _stand(self, found: ReplicaSet, log: OwnLog) -> Elected | None:
        """Stand for election."""
        epoch = max(found.epoch, log.epoch) + 1
        asked_at_s = self._monotonic()
        elected = found.elected(self._broker_id, epoch, lease_s=self._lease_s)
        if not await self._row.change(elected):
            return None
        _log.info("primary_elected", epoch=epoch, in_sync=sorted(elected.in_sync))
        return Elected(self._row, elected, asked_at_s, log.confirmed)

    def _refuse_set(self, own: str, other: str) -> None:
        if not self.trouble:
            _log.error("store_of_another_set", broker_id=self._broker_id, set_id=own, wanted=other)
        self.trouble = other_set(own, other)

    async def _begin(self) -> None:
        """Begin the set. Only one broker may do this: two would have different logs.

        A log with epochs belongs to a set that had a row: an operator has to choose the best log.
        """
        log = self._log()
        epoch = log.epoch
        if epoch and not self._begins_anew:
            if not self.trouble:
                _log.error("replica_set_lost", broker_id=self._broker_id, epoch=epoch, end=log.end)
            self.trouble = (
                f"the database knows nothing of its set, and its log is of epoch {epoch}: bring "
                "the database back, or begin the set anew with the broker that has most"
            )
        elif self._broker_id == 0 or self._begins_anew:
            above = epoch + EPOCHS_LEFT_OUT if epoch else 0
            # Brokers with copies of this log come back to the set.
            set_id = log.set_id or self._draw_set_id()
            begun = ReplicaSet().begun(
                self._broker_id, self._address, set_id=set_id, epoch=above, begin=log.begin
            )
            if await self._row.change(begun):
                _log.info("replica_set_begun", broker_id=self._broker_id, epoch=above)

    async def _take_place(self, found: ReplicaSet, now_s: float) -> None:
        """Register this broker's address, unless another broker with its id is live elsewhere.

        Of two replicas with one id, the later one stays in the set: the broker may have moved.
        """
        address = found.addresses.get(self._broker_id, "")
        if self._had_place and address:
            why = f"a process with this broker's id has come later, at {address}"
        elif found.primary_id == self._broker_id and not self._candidacy.has_lapsed(now_s):
            why = f"a primary with this broker's id is at {address}, or was there just now"
        else:
            self.trouble, self._is_refusal_noted = "", False
            await self._row.change(found.at(self._broker_id, self._address, self._wish))
            return
        if not self.trouble:
            _log.warning("broker_id_in_use", broker_id=self._broker_id, address=address)
        self.trouble = f"{why}: stop that one, or give this broker an id of its own"
        if not self._is_refusal_noted:  # Only the row leads operators here: it is in no route.
            refusing = found.refusing(self._broker_id, self._address)
            self._is_refusal_noted = await self._row.change(refusing)

    def _must_leave(self, found: ReplicaSet) -> bool:
        """Whether the set relies on records that this broker may lack."""
        is_counted = self._broker_id in found.in_sync
        is_last = found.in_sync == {self._broker_id}
        is_pressed = bool(self._log().pressure) and not is_last
        return is_counted and (is_pressed or self._may_lack(found) or self._lost_store(found))

    def _may_lack(self, found: ReplicaSet) -> bool:
        """Whether the log lacks records that the set relies on, as far as can be told at a start.

        Later, the primary compares both logs: it may lack the same records.
        """
        if self._is_settled:
            return False
        log = self._log()
        is_shorter = log.end < found.confirmed or log.begin > found.begin
        is_earlier = self._was_put_back(found)
        return self._may_lack_end or log.is_damaged or is_shorter or is_earlier

    def _was_put_back(self, found: ReplicaSet) -> bool:
        """Whether this is an earlier state of the store that the row knows."""
        return not self._is_marked and self._mark.value < found.marks.get(self._broker_id, 0)

    def _is_older(self, found: ReplicaSet) -> bool:
        """Whether the store is an older one: no loss of power has taken its end."""
        if self._is_settled:
            return False
        is_shorter = not self._may_lack_end and self._log().end < found.confirmed
        return is_shorter or self._was_put_back(found)

    def _lost_store(self, found: ReplicaSet) -> bool:
        """Whether the set relies on a log that this broker has lost."""
        if not found.epoch:  # There was no primary yet.
            return False
        is_wanted = found.unclean and found.wanted_id == self._broker_id
        has_others = len(found.addresses) > 1
        is_new = self._is_new and not self._log().epoch
        return has_others and not is_wanted and (is_new or self._is_older(found))

    async def _leave(self, found: ReplicaSet) -> None:
        """Leave the in-sync set; the last member stays, since no other one has more."""
        if found.in_sync == {self._broker_id} and self._lost_store(found):
            if not self.trouble:
                _log.error("store_lost", broker_id=self._broker_id, epoch=found.epoch)
            self.trouble = (
                "its store is new or older than what the set relies on, and it was the only one "
                "in sync: elect the broker that has most: the highest epoch, then the largest end"
            )
        elif found.in_sync == {self._broker_id}:
            _log.warning("log_may_lack_records", broker_id=self._broker_id)
            await self._has_settled()
        elif await self._row.change(found.without(self._broker_id)):
            _log.warning("left_in_sync_set", broker_id=self._broker_id)
            await self._has_settled()

    async def _has_settled(self) -> None:
        self._is_settled = True
        if self._may_lack_end:
            await self._settle()
            self._may_lack_end = False


class Candidacy:
    """Decides from the shared row and a clock whether a replica may stand for election now."""

    def __init__(self, broker_id: int, *, lease_s: float) -> None:
        self._broker_id = broker_id
        self._lease_s = lease_s
        self._sign: tuple[int, int, int | None] | None = None
        self._since_s = 0.0

    def observe(self, replica_set: ReplicaSet, now_s: float) -> None:
        """Note the row as it was read.

        Args:
            replica_set: The row.
            now_s: The monotonic clock, after it was read.
        """
        # A primary may have been started with another lease than this broker.
        self._lease_s = replica_set.lease_s or self._lease_s
        sign = (replica_set.epoch, replica_set.renewals, replica_set.primary_id)
        if sign != self._sign:
            self._sign, self._since_s = sign, now_s

    def has_lapsed(self, now_s: float, leases: float = 1) -> bool:
        """Whether the lease of the primary was not renewed for so many times its length."""
        return now_s - self._since_s >= self._lease_s * PATIENCE * leases

    def may_stand(self, replica_set: ReplicaSet, now_s: float) -> bool:
        """Whether the broker may have itself elected now.

        At once if there is no primary, or if this broker is the primary: its earlier process has
        ended. Else once the primary was silent for longer than its lease. If another broker is
        wanted, this one waits for as long again: the wanted one may have died, too. It leaves half
        as long to one that is better where the primary has died (``ReplicaSet.has_better``).
        """
        me = self._broker_id
        if not replica_set.may_elect(me):
            return False
        others_lease = replica_set.primary_id not in {None, me}
        others_turn = replica_set.wanted_id not in {None, me}
        better = HEAD_START * (others_lease and replica_set.has_better(me))
        return self.has_lapsed(now_s, others_lease + others_turn + better)
