"""Pulling: records of many queues in one call, held until there are some.

A look reads all queues in one turn of the loop, within one budget of records and bytes. Which queue
comes first is drawn anew for each look, so that a queue with a deep backlog does not starve the
others. When nothing is found the call is held, and looks again when one of its queues has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ariane_broker.client_table import ClientTable
from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.deaths.client_work import GroupQueue
from ariane_broker.deaths.vanished_members import VanishedMembers
from ariane_broker.held_requests import HOLD_SECONDS_MAX, HeldRequests
from ariane_broker.queue_locks import QueueLocks
from ariane_broker.readable_topics import readable_queue
from ariane_broker.statistics import BrokerStatistics
from ariane_broker.subscription import FilterExpression, wanted_tag_codes
from ariane_broker.topic_table import TopicTable
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_storage.errors import StorageError
from ariane_storage.read import QueueRead, QueueReadStatus

RECORD_COUNT_MAX: Final = 65536
RECORD_COUNT_DEFAULT: Final = 4096
SIZE_BYTES_MAX: Final = 32 << 20
SIZE_BYTES_DEFAULT: Final = 1 << 20
POSITIONS_MAX: Final = 8192
REMAINDER_SHARE: Final = 16
"""A look is over when less than that part of its bytes is left: the last message that fits leaves
a few, which would bring one message of the next queue, at the price of a whole batch."""

_NO_SIZES: Final = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read one queue.

    Attributes:
        queue: The queue.
        queue_offset: The first queue offset wanted.
        record_count_max: At most this many records of this queue; 0: no own limit.
        size_bytes_max: At most about this many bytes of this queue; 0: no own limit.
        lock_epoch: Of the consumer's lock of the queue; None if it has none.
    """

    queue: QueueKey
    queue_offset: int
    record_count_max: int = 0
    size_bytes_max: int = 0
    lock_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOrder:
    """What a consumer asks for.

    Attributes:
        consumer_group: Its group.
        positions: Where to read, one entry for each queue.
        filters: Which messages, by topic; a topic that is missing means all.
        record_count_max: At most this many records in all; 0 means the default.
        size_bytes_max: At most about this many bytes in all; 0 means the default.
        hold_seconds: How long to hold when there is nothing.
        hold_seconds_max: What the call's deadline leaves of that; None: all of it.
        client_id: The consumer.
        bodies_suffice: Whether the bodies are enough, where they are cheap to gather.
    """

    consumer_group: str
    positions: tuple[Position, ...]
    filters: Mapping[str, FilterExpression] = field(default_factory=dict)
    record_count_max: int = 0
    size_bytes_max: int = 0
    hold_seconds: float = 0.0
    hold_seconds_max: float | None = None
    client_id: str = ""
    bodies_suffice: bool = False


@dataclass(frozen=True, slots=True)
class PulledQueue:
    """What one queue gave.

    Attributes:
        queue: The queue.
        next_queue_offset: Where to go on.
        min_queue_offset: The oldest that is kept.
        max_queue_offset: Readable end, exclusive.
        chunks: The records, those that lie back to back in one: views of the commit log, to be
            copied before anybody else has a turn.
        sizes: Bytes of each record.
        error: Why there is nothing.
        bodies_suffice: As the order said.
    """

    queue: QueueKey
    next_queue_offset: int
    min_queue_offset: int = 0
    max_queue_offset: int = 0
    chunks: Sequence[memoryview] = ()
    sizes: NDArray[np.int32] = field(default_factory=lambda: _NO_SIZES)
    error: ServiceError | None = None
    bodies_suffice: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(map(len, self.chunks))

    @property
    def records(self) -> bytes:
        """The records, back to back: a copy."""
        return b"".join(self.chunks)


class Hold(Hashable, Protocol):
    """What may end the hold of a pull before its time; a key of ``HeldRequests``."""

    @property
    def over(self) -> bool:
        """Whether it has ended it."""
        ...

    def begin(self) -> None:
        """The pull is about to be held; who ends the hold wakes this object from now on."""
        ...


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
        tag_codes: Collection[int] | None = None,
    ) -> QueueRead: ...


@dataclass(slots=True)
class _Look:
    """One reading of all queues."""

    found: dict[int, PulledQueue]
    unfinished: bool = False
    """Whether a filter left out all that was looked at, and there is more behind."""


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
        self._service_error = service_error
        self._draw = draw
        self._monotonic = monotonic

    async def pull(self, order: PullOrder, hold: Hold | None = None) -> list[PulledQueue]:
        """Read what there is, or wait for it.

        Args:
            order: What is wanted.
            hold: What may end the hold; the answer then is as if its time had ended.

        Returns:
            What was found in the order of the positions: queues with records, with an error, or
            whose position moved; all queues when the hold time ended.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, FIELD_INVALID, FILTER_EXPRESSION_INVALID,
                FEATURE_NOT_AVAILABLE, SUBSCRIPTION_CONFLICT or HELD_PULLS_EXHAUSTED.
        """
        order = _checked(order)
        self._check_group(order.consumer_group)
        codes = {topic: wanted_tag_codes(wanted) for topic, wanted in order.filters.items()}
        topics = dict.fromkeys(position.queue.topic for position in order.positions)
        self._clients.check_pull(order.consumer_group, order.client_id, topics, order.filters)
        positions = list(order.positions)
        deadline = self._monotonic() + order.hold_seconds
        moved: dict[int, PulledQueue] = {}
        while True:
            look = self._look(order, positions, codes)
            if any(len(pulled.sizes) or pulled.error is not None for pulled in look.found.values()):
                return _answer(order, moved | look.found)
            for place, pulled in look.found.items():
                if pulled.next_queue_offset != positions[place].queue_offset:
                    moved[place] = pulled
                    offset = pulled.next_queue_offset
                    positions[place] = replace(positions[place], queue_offset=offset)
            if look.unfinished:
                # A filter with few matches reads far; others run in between.
                await asyncio.sleep(0)
                if self._monotonic() < deadline:
                    continue
                return _answer(order, moved | look.found, hold_ended=True)
            remaining = deadline - self._monotonic()
            keys: list[Hashable] = [position.queue for position in positions]
            if hold is not None and remaining > 0:
                hold.begin()
                keys.append(hold)
            if _is_over(hold) or not await self._held.wait(keys, remaining) or _is_over(hold):
                return _answer(order, moved | look.found, hold_ended=True)

    def _look(
        self,
        order: PullOrder,
        positions: Sequence[Position],
        codes: Mapping[str, frozenset[int] | None],
    ) -> _Look:
        """Read all queues, from a drawn one on, until the budget is spent."""
        count_left = order.record_count_max
        bytes_left = order.size_bytes_max
        remainder_bytes = order.size_bytes_max // REMAINDER_SHARE
        look = _Look({})
        queue_count = len(positions)
        first = self._draw(queue_count) if queue_count > 1 else 0
        for turn in range(queue_count):
            if count_left <= 0 or bytes_left <= remainder_bytes:
                break
            place = (first + turn) % queue_count
            position = positions[place]
            try:
                self._check_queue(order, position)
                read = self._log.read_queue(
                    *position.queue,
                    position.queue_offset,
                    max_count=min(count_left, position.record_count_max or count_left),
                    max_bytes=min(bytes_left, position.size_bytes_max or bytes_left),
                    tag_codes=codes.get(position.queue.topic),
                )
            except (ServiceError, StorageError) as error:
                look.found[place] = _failed(position, self._service_error(error))
                continue
            pulled = look.found[place] = PulledQueue(
                position.queue,
                read.next_queue_offset,
                read.min_queue_offset,
                read.max_queue_offset,
                read.chunks,
                read.sizes,
                bodies_suffice=order.bodies_suffice,
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

    def _check_queue(self, order: PullOrder, position: Position) -> None:
        """Refuse a queue that may not be read, or that another member has locked meanwhile."""
        readable_queue(self._topics, *position.queue, order.consumer_group)
        refusal = self._locks.refusal(
            order.consumer_group, order.client_id, position.queue, position.lock_epoch
        )
        if refusal is not None:
            raise refusal


def _is_over(hold: Hold | None) -> bool:
    return hold is not None and hold.over


def _checked(order: PullOrder) -> PullOrder:
    """The order with its defaults.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not 1 <= len(order.positions) <= POSITIONS_MAX:
        raise field_invalid("positions", f"must be 1 to {POSITIONS_MAX}", len(order.positions))
    if not 0 <= order.record_count_max <= RECORD_COUNT_MAX:
        rule = f"must be 0 to {RECORD_COUNT_MAX}"
        raise field_invalid("record_count_max", rule, order.record_count_max)
    if order.size_bytes_max < 0:
        raise field_invalid("size_bytes_max", "must be 0 or more", order.size_bytes_max)
    for place, position in enumerate(order.positions):
        values = {
            "queue_id": position.queue.queue_id,
            "queue_offset": position.queue_offset,
            "record_count_max": position.record_count_max,
            "size_bytes_max": position.size_bytes_max,
        }
        if min(values.values()) < 0:
            name = min(values, key=lambda name: values[name])
            raise field_invalid(f"positions[{place}].{name}", "must be 0 or more", values[name])
    if order.hold_seconds > HOLD_SECONDS_MAX:
        rule = f"must be at most {HOLD_SECONDS_MAX:.0f} s"
        raise field_invalid("hold_duration", rule, f"{order.hold_seconds:.0f} s")
    return replace(
        order,
        record_count_max=order.record_count_max or RECORD_COUNT_DEFAULT,
        size_bytes_max=min(order.size_bytes_max or SIZE_BYTES_DEFAULT, SIZE_BYTES_MAX),
        hold_seconds=order.hold_seconds
        if order.hold_seconds_max is None
        else min(order.hold_seconds, order.hold_seconds_max),
    )


def _failed(position: Position, error: ServiceError) -> PulledQueue:
    """A queue that cannot be read; the bounds tell a reader that is out of range where to go."""
    return PulledQueue(
        position.queue,
        position.queue_offset,
        int(error.metadata.get("min", 0)),
        int(error.metadata.get("max", 0)),
        error=error,
    )


def _answer(
    order: PullOrder, found: Mapping[int, PulledQueue], *, hold_ended: bool = False
) -> list[PulledQueue]:
    """What the consumer is told, in the order of its positions."""
    return [
        pulled
        for place, pulled in sorted(found.items())
        if hold_ended
        or len(pulled.sizes)
        or pulled.error is not None
        or pulled.next_queue_offset != order.positions[place].queue_offset
    ]
