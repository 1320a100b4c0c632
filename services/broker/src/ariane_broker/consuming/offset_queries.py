"""Queries about consumer offsets: stored ones, ends of queues, places by time, and backlogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_record import ConsumerOffset
from ariane_servicekit.errors import field_invalid
from ariane_storage.disk.cold import each_warm
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class KnownOffset:
    """The stored offset of a group in a queue."""

    queue: QueueKey
    """The queue."""
    consumer_offset: ConsumerOffset | None
    """The next queue offset it will consume; None if there is none."""
    reset_epoch: int
    """How often the offset was reset."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of a group in one queue."""

    place: GroupOffset
    """Group, queue and consumer offset."""
    max_queue_offset: int
    """Readable end, exclusive."""
    message_count: int
    """Stored messages that are not consumed."""
    oldest_store_timestamp_ms: int | None
    """When the oldest message not consumed was stored, or None."""


class OffsetQueries:
    """Answers questions about the offsets of groups."""

    def __init__(
        self, offsets: ConsumerOffsets, store: Store, lookup: QueueLookup, cold_reads: ColdReads
    ) -> None:
        self._offsets = offsets
        self._store = store
        self._lookup = lookup
        self._cold_reads = cold_reads

    def read(self, consumer_group: str, queues: Sequence[QueueKey]) -> Iterator[KnownOffset]:
        """The offsets of a group in queues, or in all queues in which it has one.

        Each is read when it is asked for: other work may be done in between.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL or FIELD_INVALID.
        """
        check_user_group(consumer_group)
        for place, queue in enumerate(queues or self._offsets.queues_of(consumer_group)):
            if queue.queue_id < 0:
                field = f"queues[{place}].queue_id"
                raise field_invalid(field, "must be 0 or more", queue.queue_id)
            yield KnownOffset(
                queue,
                self._offsets.find(consumer_group, queue),
                self._offsets.reset_epoch(consumer_group, queue),
            )

    def known(self, consumer_group: str, queue: QueueKey) -> int | None:
        """The group's offset in a queue, or None."""
        return self._offsets.find(consumer_group, queue)

    def earliest(self, queue: QueueKey) -> int:
        """The oldest stored queue offset."""
        return self._store.queue_bounds(*queue)[0]

    def latest(self, queue: QueueKey) -> int:
        """The readable end."""
        return self._store.queue_bounds(*queue)[1]

    def at_time(self, queue: QueueKey, timestamp_ms: int) -> int:
        """The first queue offset stored at or after a time."""
        return self._lookup.offset_from(*queue, timestamp_ms)

    def places(self, consumer_group: str, topic: str) -> Iterator[GroupOffset | None]:
        """The offsets of one group or all, in one topic or all; see ``ConsumerOffsets.walk``."""
        return self._offsets.walk(consumer_group, topic)

    async def backlogs(self, places: Iterable[GroupOffset]) -> list[Backlog]:
        """The backlog of groups in one queue each."""
        looks = (partial(self.backlog, place) for place in places)
        return await self._cold_reads.in_turns(QUERIES, each_warm(looks))

    def backlog(self, place: GroupOffset) -> Backlog:
        """The backlog of a group in one queue."""
        begin, end = self._store.queue_bounds(*place.queue)
        next_offset = max(place.consumer_offset, begin)
        oldest = None
        if next_offset < end:
            oldest = self._lookup.store_timestamp_ms(*place.queue, next_offset)
        return Backlog(place, end, max(0, end - next_offset), oldest)
