"""The primary's side of replication: sends the log, tracks the replicas, and confirms records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final, NamedTuple

from ariane_broker.errors.replication import (
    broker_not_primary,
    epoch_fenced,
    log_diverged,
    replication_unconfirmed,
    too_few_in_sync,
)
from ariane_broker.replication.confirmation import Confirmation
from ariane_broker.replication.copies import Copies, Copy, Progress, lacks_more
from ariane_broker.replication.log_feed import LogFeed
from ariane_broker.replication.log_taker import other_set
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import NO_WISH, ReadableReplica
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_servicekit import get_logger
from ariane_storage.copying.log_copy import LogRange
from ariane_storage.errors import StorageError
from ariane_storage.log.epoch_history import EpochStart, common_end
from ariane_storage.store import Store

CATCH_UP_STEP_S: Final = 0.005
"""Seconds between checks whether replicas have caught up, where none of them calls back."""

STATE_CHECK_S: Final = 0.1
"""Seconds between checks of the lease and the time while a caller waits for copies of the state."""

GATHERING_CHUNKS: Final = 1
"""Chunks that keep a replica busy if no sender waits for it: while it has one, the next grows."""

PROMPT_CHUNKS: Final = 2
"""The same if senders wait for it: it writes one chunk while the next one is on its way."""

_log = get_logger(__name__)


class Hello(NamedTuple):
    """The first message of a replica."""

    broker_id: int
    """Its id."""
    epochs: Sequence[EpochStart]
    """The epochs of its log, oldest first."""
    begin: int
    """The begin of its log."""
    end: int
    """The end of its log; equal to the begin for an empty one."""
    segment_bytes: int
    """The size of its segments."""
    known_epoch: int
    """The newest epoch that it knows."""
    address: str
    """The address that it calls from."""
    set_id: str
    """The set that its log belongs to; empty for a new one."""
    missing: Sequence[LogRange] = ()
    """Ranges before its end that it misses or knows to be damaged."""


class Primary:
    """The primary's side of replication. Lives on one loop."""

    def __init__(
        self,
        reign: Reign,
        store: Store,
        copies: Copies,
        confirmation: Confirmation,
        *,
        monotonic: Callable[[], float],
        is_sync_flush: bool,
        is_replicated: bool,
        in_sync_min: int,
        on_confirmed: Callable[[], None],
        known_confirmed: int = 0,
        on_hidden: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take the record of replicas, begun with the in-sync set, and an unused confirmation.

        ``is_sync_flush``: whether a copy counts on the disk only. ``is_replicated``: whether
        acknowledgements, and so readers, wait for replicas. ``in_sync_min`` includes this broker.
        Everything before ``known_confirmed`` is known to be confirmed. ``on_hidden`` is called with
        the log's end if this end is not handed out at first; it blocks.
        """
        self.reign = reign
        """Its reign."""
        self.copies = copies
        """Its record of its replicas."""
        self.confirmation = confirmation
        """The callbacks that wait for them."""
        self.store = store
        """The store whose log it sends."""
        self._monotonic = monotonic
        self._is_sync_flush = is_sync_flush
        self._is_replicated = is_replicated
        self.in_sync_min = in_sync_min if is_replicated else 1
        """With fewer brokers in sync it takes no messages."""
        self._on_confirmed = on_confirmed
        self._known_confirmed = known_confirmed
        self._on_hidden = on_hidden
        self._hidden_end = 0
        self._feeds: dict[int, LogFeed] = {}
        self._is_open = True
        self._is_closed = False
        self.has_begun = False
        """Whether its store has recovered, and the epoch has begun in the log."""
        self.state_version = 0
        """Grows whenever replicas are called to pull state."""
        self.is_row_away = False
        """Whether the database was away at the last renewal of the lease."""

    @property
    def has_copies(self) -> bool:
        """Whether a confirmation includes at least one replica."""
        return bool(self.copies.waited_for)

    @property
    def hides_end(self) -> bool:
        """Whether the log's end from before this reign is still hidden from readers."""
        return self.store.confirmed_offset < self._hidden_end

    @property
    def in_sync_count(self) -> int:
        """How many brokers are in sync, this one included."""
        return len(self.reign.replica_set.in_sync)

    def readable_replicas(self, end: int) -> list[ReadableReplica]:
        """The replicas in sync whose logs can be read up to a commit-log offset."""
        replica_set, members = self.reign.replica_set, self.copies.members
        addresses, wishes = replica_set.addresses, replica_set.wishes
        # Records can be read at a replica once the primary reports them as confirmed.
        if end > self.store.confirmed_offset:
            return []
        return [
            ReadableReplica(addresses[one], wishes.get(one, NO_WISH).zone)
            for one in sorted(self.copies.waited_for)
            if one in addresses and members[one].attached and self.copies.safe(members[one]) >= end
        ]

    def hide_unconfirmed(self) -> None:
        """Hide what is not known to be confirmed; the store was opened, and may be closed again."""
        if self._is_replicated:
            self.store.copying.confirm_up_to(self.store.recovery.confirmed_offset)

    def begin(self) -> None:
        """Begin the epoch in the log, durably; the store is open. Blocks."""
        copying = self.store.copying
        copying.join_set(self.reign.replica_set.set_id)
        copying.begin_epoch(self.reign.epoch)
        self.copies.inherit(self.store.max_offset, self._monotonic())
        if self._is_replicated:
            # All records that readers of the earlier primary may have got are before this offset.
            end = self.store.max_offset
            # Only this broker may have the rest: if it died before the others in sync have it,
            # something else would take its place.
            confirmed = min(end, self._known_confirmed) if self.has_copies else end
            copying.confirm_up_to(confirmed)
            if confirmed < end:
                self._hidden_end = end
                self._on_hidden(end)
        self.has_begun = True

    # Appending.

    def check(self) -> None:
        """Refuse to append unless this broker is primary, and enough copies are in sync.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY or TOO_FEW_IN_SYNC.
        """
        if not self._is_open:
            raise broker_not_primary(self._successor)
        self.check_lease()
        in_sync = self.in_sync_count
        if in_sync < self.in_sync_min:
            raise too_few_in_sync(in_sync, self.in_sync_min)

    def check_lease(self) -> None:
        """Refuse what only the present primary knows.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        if not self.reign.holds:
            raise broker_not_primary(self._successor)

    @property
    def _successor(self) -> str:
        """The address of the next primary; empty if it is unknown."""
        return self.reign.replica_set.primary_address if self.reign.is_deposed else ""

    def appended(self) -> None:
        """Wake the feeds: the log has grown."""
        for feed in self._feeds.values():
            feed.appended()
        if not self._is_sync_flush and not self.copies.waited_for:
            self.advance()

    def state_changed(self) -> None:
        """Note that topics or groups have changed on the disk, before any further append."""
        if self.has_begun:
            self.call_for_state()
            self.copies.state_changed(self.state_version, self.store.max_offset)

    def call_for_state(self) -> None:
        """Have replicas pull the present state files."""
        self.state_version += 1
        for feed in self._feeds.values():
            feed.wake()

    @property
    def is_begin_shared(self) -> bool:
        """Whether all brokers in sync have the state files with which this reign began."""
        return self.copies.have_state(1)  # Loading the state has called for them.

    async def state_copied(self) -> None:
        """Wait until all brokers in sync have the state files of the last call for state.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY or REPLICATION_UNCONFIRMED: a failover may undo it.
        """
        version = self.state_version
        end_s = self._monotonic() + self.confirmation.wait_s_max
        while True:
            if not self.reign.holds:
                raise broker_not_primary("")
            if not self._is_replicated or self.copies.have_state(version):
                return
            if self._is_closed or self._monotonic() >= end_s:
                raise replication_unconfirmed()
            await self.copies.wait_for_state(STATE_CHECK_S)

    def advance(self) -> None:
        """Compute the confirmed offset, after each own flush and each report of a replica."""
        self._advance()

    def _advance(self) -> float:
        """Return how many seconds the oldest send that is confirmed now has waited; 0: none."""
        store = self.store
        own = store.flushed_offset if self._is_sync_flush else store.max_offset
        confirmed = self.copies.confirmed(own)
        if self._is_replicated:
            store.copying.confirm_up_to(confirmed)
        waited_s = self.confirmation.advance(confirmed)
        self._on_confirmed()
        return waited_s

    # Replicas.

    def follow(self, hello: Hello) -> tuple[LogFeed, Copy]:
        """Begin to send to a replica, in place of its earlier stream.

        Raises:
            ServiceError: EPOCH_FENCED, LOG_DIVERGED, or BROKER_NOT_PRIMARY.
        """
        # A log is never cut for a primary of an earlier epoch than its own, independent of the row.
        newest = max([hello.known_epoch, *(start.epoch for start in hello.epochs)])
        if newest > self.reign.epoch:
            raise epoch_fenced(self.reign.epoch, newest)
        # Also while the role is being handed over: the next primary must catch up.
        if self._is_closed or self.reign.is_deposed:
            raise broker_not_primary(self.reign.replica_set.primary_address)
        begin = self._begin_of(hello)
        if (earlier := self._feeds.get(hello.broker_id)) is not None:
            earlier.close()
        feed = LogFeed(self.store, begin, busy_chunk_count=self._busy_chunk_count)
        self._feeds[hello.broker_id] = feed
        copy = self.copies.attached(hello.broker_id, hello.address, self._monotonic())
        copy.missing = hello.missing
        if hello.end < self.confirmation.confirmed:
            copy.caught_up_s = -inf  # If it is in sync, it is not any more with the next turn.
        _log.info("replica_attached", broker_id=hello.broker_id, begin_commit_log_offset=begin)
        return feed, copy

    def check_copier(self, set_id: str) -> None:
        """Refuse to hand out parts of the log.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY; LOG_DIVERGED for a broker of another set.
        """
        store = self.store
        if not self.has_begun or not self.reign.holds:
            raise broker_not_primary(self.reign.replica_set.primary_address)
        if set_id != store.copying.set_id:
            reason = other_set(set_id, store.copying.set_id)
            raise log_diverged(reason, store.min_offset, store.max_offset)

    @property
    def _busy_chunk_count(self) -> int | None:
        if self._is_sync_flush:
            return None  # The replica must have the bytes when its next flush begins.
        return PROMPT_CHUNKS if self._is_replicated else GATHERING_CHUNKS

    def _begin_of(self, hello: Hello) -> int:
        store = self.store
        begin, end = store.min_offset, store.max_offset
        is_empty = hello.begin == hello.end
        if hello.set_id != store.copying.set_id and (hello.set_id or not is_empty):
            raise log_diverged(other_set(hello.set_id, store.copying.set_id), begin, end)
        if hello.segment_bytes != store.config.segment_bytes:
            reason = f"segments of {hello.segment_bytes} bytes, not {store.config.segment_bytes}"
            raise log_diverged(reason, begin, end)
        if is_empty:
            return begin
        common = common_end(store.copying.epochs, end, hello.epochs, hello.end)
        if common is None:
            raise log_diverged("no epoch is in both logs", begin, end)
        if common < begin:
            raise log_diverged(f"what follows {common} is not kept any more", begin, end)
        return common

    def progressed(self, copy: Copy, feed: LogFeed, progress: Progress) -> None:
        """Take note of how far a replica has copied the log."""
        if self._feeds.get(copy.broker_id) is not feed:
            return  # The report is of an earlier stream.
        end, now_s = self.store.max_offset, self._monotonic()
        self.copies.progressed(copy, progress, end=end, version=self.state_version, now_s=now_s)
        feed.progressed(progress.received)
        self.copies.held_up(copy, self._advance(), now_s)

    def left(self, copy: Copy, feed: LogFeed) -> None:
        """Note that a stream has ended."""
        if self._feeds.get(copy.broker_id) is feed:
            del self._feeds[copy.broker_id]
            copy.attached = False
            _log.info("replica_left", broker_id=copy.broker_id)

    async def may_begin(self, begin: int) -> bool:
        """Announce a later begin of the log; return whether all before it may be deleted.

        A broker whose log begins later than the row says has lost records.
        """
        try:
            return await self.reign.begin_log_at(begin)
        except RowUnreachable:
            return False

    # Time passing.

    async def turn(self) -> None:
        """Renew the lease; add replicas that have all to the in-sync set, and remove late ones.

        The lease is renewed also during the store's recovery, which may take longer than a lease.
        It is not renewed after ``close``: replicas can catch up no more, and one is to be elected.
        """
        if self._is_closed:
            return
        try:
            await self.reign.renew(self._confirmed_end)
            if self.has_begun and not self._is_closed:
                await self._take_in_and_out()
        except RowUnreachable as error:  # The lease runs out if this lasts.
            if not self.is_row_away:
                _log.warning("shared_row_away", cause=str(error))
            self.is_row_away = True
            return
        self.is_row_away = False

    @property
    def _confirmed_end(self) -> int:
        """How far the log is confirmed, by this primary or those before it."""
        known = self.reign.replica_set.confirmed
        if not self.has_begun:
            return known
        return max(min(known, self.store.max_offset), self.confirmation.confirmed)

    def _lacking(self) -> frozenset[int]:
        """Replicas that miss a range of the log which this broker has."""
        own = self.store.copying.missing(self.reign.replica_set.begin)
        members = self.copies.members.values()
        return frozenset(one.broker_id for one in members if lacks_more(one.missing, own))

    async def _take_in_and_out(self) -> None:
        me, copies = self.reign.broker_id, self.copies
        # A broker that may have lost records has removed itself.
        copies.wait_for(self.reign.replica_set.in_sync - {me})
        now_s = self._monotonic()
        own = self.store.flushed_offset if self._is_sync_flush else self.store.max_offset
        lacking = self._lacking()
        late = copies.late(now_s) | (lacking & copies.waited_for)
        confirmed = max(copies.confirmed(own), self.confirmation.confirmed)
        ready = copies.ready(confirmed, self.state_version, now_s) - lacking
        if late or ready:
            # In this order: a broker that can be elected is always one that is waited for.
            copies.wait_for(copies.waited_for | ready)
            in_sync = await self.reign.change_in_sync(
                # It is tried again where the row has changed: so may the log of who was ready have.
                lambda now: (now - late) | copies.still_have(ready, confirmed) | {me}
            )
            copies.wait_for(in_sync - {me})
            _log.info("in_sync_changed", in_sync=sorted(in_sync), epoch=self.reign.epoch)
        self.advance()

    @property
    def needed_from(self) -> int | None:
        """The first commit-log offset that replicas in sync still need; None: none is attached."""
        members = self.copies.members
        places = [members[one].written for one in self.copies.waited_for if members[one].attached]
        return min(places, default=None)

    # Ending.

    def close(self) -> None:
        """Accept no messages, end all feeds, and fail all waiting confirmations as unknown."""
        self._is_open, self._is_closed = False, True
        for feed in self._feeds.values():
            feed.close()
        self.confirmation.give_up()
        self.copies.wake()

    async def hand_over(
        self,
        wanted_id: int | None,
        *,
        grace_s: float,
        save_state: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Accept no more messages, let brokers in sync catch up, and end the reign.

        Args:
            wanted_id: The next primary; None: any broker in sync.
            grace_s: The longest time to refuse messages before giving up.
            save_state: Saves changes that state files do not have yet.
            say_farewell: Has consumers store their offsets, once the next primary follows; messages
                are accepted meanwhile. None: they have done so.

        Returns:
            Whether the reign has ended; else nothing has changed.

        Raises:
            RowUnreachable: The database is away: this broker accepts messages again once it is
                back, if no other broker has become primary meanwhile.
        """
        end_s = self._monotonic() + grace_s
        if wanted_id is not None and not await self._is_followed_by(wanted_id, end_s):
            return False
        if say_farewell is not None:
            begun_s = self._monotonic()
            await say_farewell()
            end_s += self._monotonic() - begun_s
        self._is_open = False
        done = False
        try:
            await self._share_state(save_state)
            if await self._caught_up(wanted_id, end_s):
                done = await self.reign.resign(wanted_id)
        finally:
            self._is_open = not (done or self._is_closed)
        return done

    async def _is_followed_by(self, wanted_id: int, end_s: float) -> bool:
        """Wait a while for the next primary to follow; messages are accepted meanwhile."""
        while not ((copy := self.copies.members.get(wanted_id)) and copy.attached):
            if self._is_closed or self._monotonic() >= end_s:
                return False
            await asyncio.sleep(CATCH_UP_STEP_S)
        return True

    async def _share_state(self, save_state: Callable[[], Awaitable[None]]) -> None:
        try:
            await save_state()
        except (OSError, StorageError) as error:  # Messages of unsaved offsets are delivered again.
            _log.warning("state_not_saved", cause=str(error))
        self.call_for_state()

    async def _caught_up(self, wanted_id: int | None, end_s: float) -> bool:
        """Wait a while for confirmations and the next primary; return whether it has the log."""
        while True:
            end = self.store.max_offset
            wanted = self.copies.waited_for if wanted_id is None else frozenset({wanted_id})
            have_log = self.copies.have_log(wanted, end)
            have_state = self.copies.have_state(self.state_version)
            if have_log and have_state and self.confirmation.confirmed >= end:
                return True
            if self._monotonic() >= end_s:
                return have_log
            await asyncio.sleep(CATCH_UP_STEP_S)
