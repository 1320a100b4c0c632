"""Looks at queues: reading many of them in one turn of the event loop, within one budget.

Each look begins at a random queue, so that a queue with a deep backlog does not starve others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.deaths.client_work import GroupQueue
from ariane_broker.clients.deaths.vanished_members import VanishedMembers
from ariane_broker.filters.expiry import expiry_ms
from ariane_broker.filters.living_origins import living
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.read.replica_hints import ReplicaHint, ReplicaHints
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.topics.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicTable
from ariane_record.layout import QueueOffset
from ariane_servicekit.errors import ServiceError
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.errors import QueueUnderRepair, StorageError
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.read import QueueRead, QueueReadStatus
from ariane_storage.store import Store

REMAINDER_SHARE: Final = 16
"""A look is over when less than that part of its bytes is left: the last message that fits leaves
a few, which would bring one message of the next queue, at the price of a whole batch."""

PLACES_MAX: Final = 256
"""Queues that one look reads, some 10 us each if there is nothing; the next look continues."""

_PLACES_OF_FILTER: Final = 8
"""A queue whose messages a filter compares counts as so many, and one more for each comparison."""

TURN_BYTES_MAX: Final = 256 << 10
"""Bytes of records after which other tasks get their turn before the look continues: 1 ms of work
where each message lies by itself. A send beside those who read a backlog waits for one such turn,
and not for 16 queues of it."""

FILTERED_BYTES_MAX: Final = 4 << 20
"""Bytes of entries and records that one look reads for filters; 2 to 12 ms. Other tasks get their
turn before the next look continues."""

COMING_MAX: Final = 16
"""Queues that one look has fetched from the disk; when they are there, the next look goes on."""


def places_max(filters: Mapping[str, Filter | None]) -> int:
    """Queues that one turn of the loop reads with these filters, of topics."""
    looks = max((each.looks_per_record for each in filters.values() if each is not None), default=0)
    return max(1, PLACES_MAX // (_PLACES_OF_FILTER + looks)) if looks else PLACES_MAX


@dataclass(slots=True)
class Look:
    """The result of one look."""

    count_left: int
    """Records for which there is room."""
    bytes_left: int
    """Bytes of them."""
    left: set[int]
    """The places of queues that may have more."""
    found: dict[int, PulledQueue] = field(default_factory=dict)
    """The results of queues, by their places in the order."""
    filtered_left: int = FILTERED_BYTES_MAX
    """Bytes that may still be read for filters."""
    unfinished: bool = False
    """Whether a filter passed nothing of what was read, and more is behind it."""
    coming: list[asyncio.Task[None]] = field(default_factory=list)
    """What is being fetched for queues that would have had to wait for the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLooks:
    """Looks at queues for pulls."""

    store: Store
    """The store."""
    topics: TopicTable
    """The topics of this broker."""
    statistics: BrokerStatistics
    """Counts messages that are handed out."""
    check_group: Callable[[str], None]
    """Refuses a group that may not consume."""
    clients: ClientTable
    """The attached clients, whose subscriptions a pull must match."""
    members: VanishedMembers
    """The messages that members have in work."""
    locks: QueueLocks
    """Owners of queues that are consumed in order."""
    epochs: LogEpochs
    """The log epochs, which show positions of a lost end of the log."""
    receiving: ReceiveTable
    """The messages that receiving members have settled or in hand."""
    service_error: Callable[[Exception], ServiceError]
    """Turns errors of the store into errors of the contract."""
    draw: Callable[[int], int]
    """A random number from 0 up to its argument, exclusive."""
    now_ms: Callable[[], int]
    """Milliseconds since the epoch."""
    cold_reads: ColdReads
    """Fetches what is not in memory."""
    filtered: FilteredWatches
    """What filters of waiting readers have left out."""
    replica_hints: ReplicaHints | None = None
    """The replicas for reads of deep backlogs; None without replicas."""
    monotonic: Callable[[], float] = lambda: 0.0
    """Seconds, to measure looks."""

    def check(self, order: PullOrder, topics: Collection[str]) -> None:
        """Check that the group may read these topics with the filters of the order.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL or SUBSCRIPTION_CONFLICT.
        """
        self.check_group(order.consumer_group)
        self.clients.check_pull(order.consumer_group, order.client_id, topics, order.filters)

    async def look(
        self,
        order: PullOrder,
        filters: Mapping[str, Filter | None],
        positions: Sequence[Position],
        places: Collection[int],
        after_turn: Callable[[Sequence[int]], object] = lambda _places: None,
    ) -> Look:
        """Read queues, beginning with a random one, until the budget of an answer is spent.

        Other tasks get their turn after every ``places_max`` queues, and ``TURN_BYTES_MAX``.

        Args:
            order: The order, with budget and consumer.
            filters: The filter of each topic; topics without one have all messages.
            positions: Where to read each queue.
            places: The queues to read, as places in the positions.
            after_turn: Called at the end of each turn but the last one, before others get theirs,
                with the places that it has read.
        """
        look = Look(order.record_count_max, order.size_bytes_max, set(places))
        turns = self._turns(places)
        count = places_max(filters)
        done = 0
        while True:
            begun_s = self.monotonic()
            turn = turns[done : done + count]
            read_count = self._look_on(look, order, filters, positions, turn)
            self.statistics.record_look(self.monotonic() - begun_s)
            is_over = done + read_count >= len(turns) or _is_spent(look, order)
            if is_over:
                return look
            after_turn(turn[:read_count])
            done += read_count
            await asyncio.sleep(0)

    def _look_on(
        self,
        look: Look,
        order: PullOrder,
        filters: Mapping[str, Filter | None],
        positions: Sequence[Position],
        places: Sequence[int],
    ) -> int:
        """Read some queues in this turn of the loop; returns how many of them it has."""
        bytes_left_min = look.bytes_left - TURN_BYTES_MAX
        receives = bool(self.receiving.of_group(order.consumer_group))
        hints = None if receives else self.replica_hints
        member = hints and self.clients.membership(order.consumer_group, order.client_id)
        zone = member.zone if member else ""
        read_from: Callable[[Position, int, int, Filter | None], QueueRead] = (
            partial(self._read_free, order.consumer_group) if receives else self._read
        )
        for read_count, place in enumerate(places):
            if look.bytes_left <= bytes_left_min or _is_spent(look, order):
                return read_count
            position = positions[place]
            coming = self.cold_reads.coming(order.consumer_group, position.queue)
            if coming is not None:
                look.coming.append(coming)
                continue
            topic = position.queue.topic
            given = filters.get(topic)
            wanted = living(topic, given, self.store.copying.deleted_topic_ends)
            try:
                self._check_queue(order, position)
                with IN_MEMORY:
                    begin = position if given is None else self._begin_of(position, given)
                    read = read_from(begin, look.count_left, look.bytes_left, wanted)
                    replica = _replica(hints, order, position, read, zone)
            except QueueUnderRepair:
                continue  # Nothing for now; the repair of the queue wakes waiting pulls.
            except BytesCold as cold:
                self._fetch(look, order.consumer_group, position.queue, cold)
                continue  # A later look finds it.
            except (ServiceError, StorageError) as error:
                failure = self.service_error(error)
                look.found[place] = _failed(position, failure, self.epochs.announced)
                continue
            if wanted is not None or read.expired_count:
                look.filtered_left -= read.looked_at_bytes
            look.found[place] = PulledQueue(
                position.queue,
                read.next_queue_offset,
                read.min_queue_offset,
                read.max_queue_offset,
                read.chunks,
                read.sizes,
                bodies_suffice=order.bodies_suffice,
                log_epoch=self.epochs.announced,
                replica=replica,
                lost_offsets=read.lost_offsets,
            )
            self._count(look, order, place, read)
        return len(places)

    def _begin_of(self, position: Position, given: Filter) -> Position:
        """Where to read: behind what the filter has left out already, for others who wait."""
        begin = self.filtered.passed_over(position.queue, given, position.queue_offset)
        return position if begin == position.queue_offset else replace(position, queue_offset=begin)

    def _fetch(self, look: Look, group: str, queue: QueueKey, cold: BytesCold) -> None:
        """Begin to bring into memory what the read of a queue lacked."""
        if len(look.coming) < COMING_MAX:
            look.coming.append(self.cold_reads.begin(group, cold, queue))

    def _count(self, look: Look, order: PullOrder, place: int, read: QueueRead) -> None:
        """Count what was read of a queue: against the budget, and for others."""
        pulled = look.found[place]
        if read.next_queue_offset >= read.max_queue_offset:
            look.left.discard(place)
        self.statistics.read_count += 1
        self.statistics.lost_message_count += len(read.lost_offsets)
        self.statistics.count_expired(order.consumer_group, pulled.queue, read.expired_count)
        if read.count:
            size_bytes = pulled.size_bytes
            look.count_left -= read.count
            look.bytes_left -= size_bytes
            self.statistics.count_pull(read.count, size_bytes)
            self.members.handed_out(
                GroupQueue(order.consumer_group, pulled.queue),
                order.client_id,
                read.next_queue_offset,
            )
        elif read.status is QueueReadStatus.FILTERED:
            look.unfinished |= read.next_queue_offset < read.max_queue_offset

    def _read(
        self,
        position: Position,
        count_left: int,
        bytes_left: int,
        wanted: Filter | None,
    ) -> QueueRead:
        return self.store.read_queue(
            *position.queue,
            position.queue_offset,
            max_count=min(count_left, position.record_count_max or count_left),
            max_bytes=min(bytes_left, position.size_bytes_max or bytes_left),
            wanted=wanted,
            now_ms=expiry_ms(position.queue.topic, self.now_ms()),
        )

    def _read_free(
        self,
        group: str,
        position: Position,
        count_left: int,
        bytes_left: int,
        wanted: Filter | None,
    ) -> QueueRead:
        """Read for a group that also has members that receive.

        Messages that such a member has settled or in hand are left out. Settling wakes the pulls
        that wait for these messages.
        """
        window = self.receiving.window(group, position.queue)
        if window is None:
            return self._read(position, count_left, bytes_left, wanted)
        begin, end = window.gap(position.queue_offset, self.now_ms())
        if begin == end:
            low, _ = self.store.queue_bounds(*position.queue)
            place = QueueOffset(begin)
            return QueueRead(QueueReadStatus.EMPTY, place, low, place)
        free = replace(
            position,
            queue_offset=begin,
            record_count_max=min(end - begin, position.record_count_max or count_left),
        )
        return self._read(free, count_left, bytes_left, wanted)

    def _turns(self, places: Collection[int]) -> Sequence[int]:
        """The places in order, beginning with a random one."""
        if len(places) <= 1:
            return [*places]
        turns = sorted(places)
        first = self.draw(len(turns))
        return turns[first:] + turns[:first]

    def _check_queue(self, order: PullOrder, position: Position) -> None:
        """Refuse a queue that may not be read, or that another member has locked meanwhile.

        Refuses a position as well that lost its meaning with the end of the log.
        """
        readable_queue(self.topics, *position.queue, order.consumer_group)
        refusal = self.locks.refusal(
            order.consumer_group, order.client_id, position.queue, position.lock_epoch
        )
        if refusal is not None:
            raise refusal
        if position.log_epoch:
            self.epochs.check(position.queue, position.queue_offset, position.log_epoch)


def _is_spent(look: Look, order: PullOrder) -> bool:
    """Whether a look has no room for more; one whose filter has read its part is unfinished."""
    if look.count_left <= 0 or look.bytes_left <= order.size_bytes_max // REMAINDER_SHARE:
        return True
    look.unfinished |= look.filtered_left <= 0
    return look.filtered_left <= 0


def _failed(position: Position, error: ServiceError, log_epoch: int) -> PulledQueue:
    """The result for an unreadable queue; its bounds help a reader that is out of range."""
    return PulledQueue(
        position.queue,
        position.queue_offset,
        int(error.metadata.get("min", 0)),
        int(error.metadata.get("max", 0)),
        error=error,
        log_epoch=log_epoch,
    )


def _replica(
    hints: ReplicaHints | None, order: PullOrder, position: Position, read: QueueRead, zone: str
) -> ReplicaHint | None:
    """Tell which replica should continue a read of a deep backlog; None: this broker.

    Locks exist only here, and FilterServers pull from the broker beside them.
    """
    if (
        hints is None
        or not read.count
        or read.next_queue_offset >= read.max_queue_offset
        or position.lock_epoch is not None
        or order.uploaded_filters_follow
    ):
        return None
    return hints.of(position.queue, read.next_queue_offset, zone)
