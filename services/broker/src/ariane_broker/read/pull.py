"""Pulling: records of many queues in one call, held until there are some.

A look reads queues in one turn of the loop, within one budget of records and bytes. Which queue
comes first is drawn anew for each look, so that a queue with a deep backlog does not starve the
others. When nothing is found the call is held, and looks at those queues that have grown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from ariane_broker.append.statistics import BrokerStatistics
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.deaths.client_work import GroupQueue
from ariane_broker.clients.deaths.vanished_members import VanishedMembers
from ariane_broker.filters.filter import filter_for
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.read.open_pull import Look, OpenPull
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder, checked_order
from ariane_broker.read.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import AnswerLease
from ariane_servicekit.errors import ServiceError
from ariane_storage.errors import QueueUnderRepair, StorageError
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.read import QueueRead, QueueReadStatus

REMAINDER_SHARE: Final = 16
"""A look is over when less than that part of its bytes is left: the last message that fits leaves
a few, which would bring one message of the next queue, at the price of a whole batch."""

FILTERED_BYTES_MAX: Final = 4 << 20
"""Bytes of entries and records that one look goes through for filters; 2 to 12 ms. Others run
before the next look goes on from there."""


class ReadableLog(Protocol):
    """What is asked of the store."""

    def read_queue(  # noqa: D102 - as the store says.
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: Filter | None = None,
    ) -> QueueRead: ...


class PullRecords:
    """Answers pulls."""

    def __init__(
        self,
        log: ReadableLog,
        topics: TopicTable,
        held: HeldRequests,
        statistics: BrokerStatistics,
        *,
        check_group: Callable[[str], None],
        clients: ClientTable,
        members: VanishedMembers,
        locks: QueueLocks,
        epochs: LogEpochs,
        service_error: Callable[[Exception], ServiceError],
        draw: Callable[[int], int],
        monotonic: Callable[[], float],
    ) -> None:
        """Take the parts.

        Args:
            log: The store.
            topics: The topics of this broker.
            held: Holds pulls.
            statistics: Counts what is handed out.
            check_group: Refuses a group that may not consume.
            clients: The attached clients, whose subscriptions must agree with a pull.
            members: Knows what they have in work.
            locks: Who may read a queue that is consumed in order.
            epochs: Knows which positions a lost end of the log has left without meaning.
            service_error: Makes errors of the store public.
            draw: A random number from 0 up to its argument, exclusive.
            monotonic: Seconds that never go back.
        """
        self._log = log
        self._topics = topics
        self._held = held
        self._statistics = statistics
        self._check_group = check_group
        self._clients = clients
        self._members = members
        self._locks = locks
        self._epochs = epochs
        self._service_error = service_error
        self._draw = draw
        self._monotonic = monotonic

    def open(self, order: PullOrder, lease: AnswerLease) -> OpenPull:
        """Begin a pull that may have several answers.

        Args:
            order: What is wanted.
            lease: Room for the answers; who sends them releases it.

        Raises:
            ServiceError: FIELD_INVALID or FILTER_EXPRESSION_INVALID.
        """
        order = checked_order(order)
        filters = {
            topic: filter_for(expression, exact=order.exact)
            for topic, expression in order.filters.items()
        }
        return OpenPull(self, self._held, order, filters, lease, monotonic=self._monotonic)

    async def pull(self, order: PullOrder, lease: AnswerLease) -> list[PulledQueue]:
        """Read what there is, or wait for it, once.

        Args:
            order: What is wanted.
            lease: As with ``open``.

        Returns:
            As ``OpenPull.answer``.

        Raises:
            ServiceError: As ``open`` and ``OpenPull.answer``.
        """
        with self.open(order, lease) as opened:
            return await opened.answer()

    def check(self, order: PullOrder, topics: Collection[str]) -> None:
        """As ``Reads``."""
        self._check_group(order.consumer_group)
        self._clients.check_pull(order.consumer_group, order.client_id, topics, order.filters)

    def look(
        self,
        order: PullOrder,
        filters: Mapping[str, Filter | None],
        positions: Sequence[Position],
        places: Collection[int],
    ) -> Look:
        """As ``Reads``."""
        count_left = order.record_count_max
        bytes_left = order.size_bytes_max
        remainder_bytes = order.size_bytes_max // REMAINDER_SHARE
        filtered_left = FILTERED_BYTES_MAX
        look = Look(left=set(places))
        for place in self._turns(places):
            if count_left <= 0 or bytes_left <= remainder_bytes:
                break
            if filtered_left <= 0:
                look.unfinished = True
                break
            position = positions[place]
            wanted = filters.get(position.queue.topic)
            try:
                self._check_queue(order, position)
                read = self._log.read_queue(
                    *position.queue,
                    position.queue_offset,
                    max_count=min(count_left, position.record_count_max or count_left),
                    max_bytes=min(bytes_left, position.size_bytes_max or bytes_left),
                    wanted=wanted,
                )
            except QueueUnderRepair:
                continue  # Nothing for now; whoever repairs it wakes those who wait.
            except (ServiceError, StorageError) as error:
                failure = self._service_error(error)
                look.found[place] = _failed(position, failure, self._epochs.current)
                continue
            if wanted is not None:
                filtered_left -= read.looked_at_bytes
            if read.next_queue_offset >= read.max_queue_offset:
                look.left.discard(place)
            pulled = look.found[place] = PulledQueue(
                position.queue,
                read.next_queue_offset,
                read.min_queue_offset,
                read.max_queue_offset,
                read.chunks,
                read.sizes,
                bodies_suffice=order.bodies_suffice,
                log_epoch=self._epochs.current,
            )
            if read.count:
                size_bytes = pulled.size_bytes
                count_left -= read.count
                bytes_left -= size_bytes
                self._statistics.count_pull(read.count, size_bytes)
                self._members.handed_out(
                    GroupQueue(order.consumer_group, position.queue),
                    order.client_id,
                    read.next_queue_offset,
                )
            elif read.status is QueueReadStatus.FILTERED:
                look.unfinished |= read.next_queue_offset < read.max_queue_offset
        return look

    def _turns(self, places: Collection[int]) -> Iterable[int]:
        """The places in their order, beginning with a drawn one."""
        if len(places) <= 1:
            return places
        turns = sorted(places)
        first = self._draw(len(turns))
        return turns[first:] + turns[:first]

    def _check_queue(self, order: PullOrder, position: Position) -> None:
        """Refuse a queue that may not be read, or that another member has locked meanwhile.

        So too a position whose meaning was lost with the end of the log.
        """
        readable_queue(self._topics, *position.queue, order.consumer_group)
        refusal = self._locks.refusal(
            order.consumer_group, order.client_id, position.queue, position.lock_epoch
        )
        if refusal is not None:
            raise refusal
        if position.log_epoch:
            self._epochs.check(position.queue, position.queue_offset, position.log_epoch)


def _failed(position: Position, error: ServiceError, log_epoch: int) -> PulledQueue:
    """A queue that cannot be read; the bounds tell a reader that is out of range where to go."""
    return PulledQueue(
        position.queue,
        position.queue_offset,
        int(error.metadata.get("min", 0)),
        int(error.metadata.get("max", 0)),
        error=error,
        log_epoch=log_epoch,
    )
