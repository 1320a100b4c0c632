"""Storing, resetting and copying consumer offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import starmap
from typing import Any

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.outbox import OffsetsReset
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.errors.public_errors import (
    consumer_offset_reset,
    queue_offset_out_of_range,
    topic_not_found,
)
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.groups.group_changes import GroupChanges
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicTable
from ariane_record import ConsumerOffset
from ariane_servicekit import in_turns
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_storage.disk.cold import BytesCold, warm
from ariane_storage.store import Store


class StoreRule(Enum):
    """What storing an offset does to the one that the group has."""

    RAISE = auto()
    """Raises it, or nothing."""
    BEGIN = auto()
    """Nothing: it counts only for a group that has none."""
    MOVE = auto()
    """Replaces it."""
    LAST = auto()
    """Raises it, or nothing: who stores it gives the queue up, and nobody else knows it."""


@dataclass(frozen=True, slots=True)
class OffsetToStore:
    """A consumer's offset in one queue, to be stored."""

    queue: QueueKey
    """The queue."""
    consumer_offset: int
    """The next queue offset it will consume."""
    lock_epoch: int | None = None
    """Epoch of its lock of the queue; None without a lock."""
    reset_epoch: int | None = None
    """Reset epoch of the offset that it began at; None if unknown."""
    log_epoch: int = 0
    """Epoch of the log when the offset was read; 0 if unknown."""
    rule: StoreRule = StoreRule.RAISE
    """What becomes of the offset that the group has."""


class OffsetChanges:
    """Changes consumer offsets while the broker serves."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        store: Store,
        topics: TopicTable,
        groups: ConsumerGroups,
        *,
        group_changes: GroupChanges,
        clients: ClientTable,
        cold_reads: ColdReads,
        locks: QueueLocks,
        epochs: LogEpochs,
        saved: SavedState,
        replicate: Callable[[], Awaitable[None]],
    ) -> None:
        """``saved`` keeps the offsets; ``replicate`` returns once replicas have what was saved.

        Only changes wait for ``replicate`` whose loss would do more than deliver messages again,
        beginnings and moves on purpose, and last offsets: no living member could store them anew.
        """
        self._offsets = offsets
        self._store = store
        self._topics = topics
        self._groups = groups
        self._group_changes = group_changes
        self._clients = clients
        self._cold_reads = cold_reads
        self._locks = locks
        self._epochs = epochs
        self._saved = saved
        self._replicate = replicate
        self._beginnings: dict[asyncio.Future[Any], str] = {}

    async def store(
        self,
        consumer_group: str,
        offsets: Sequence[OffsetToStore],
        *,
        client_id: str = "",
        durable: bool,
    ) -> list[tuple[QueueKey, ServiceError]]:
        """Store offsets of a group.

        Args:
            consumer_group: The group.
            offsets: The offsets.
            client_id: The client that stores them; empty for tools.
            durable: Whether to return only once they are on the disk; beginnings, moves and last
                ones also on replicas.

        Returns:
            The refused ones, with their errors; the others are stored.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND, ACCESS_DENIED or FIELD_INVALID;
                then nothing is stored. BROKER_NOT_PRIMARY or REPLICATION_UNCONFIRMED: a failover
                may undo it.
        """
        await in_turns(starmap(_check, enumerate(offsets)))
        await self._group_changes.admit(consumer_group, client_id=client_id)
        storing = asyncio.ensure_future(
            self._store_all(consumer_group, client_id, offsets, durable=durable)
        )
        if durable and any(one.rule is StoreRule.BEGIN for one in offsets):
            self._beginnings[storing] = consumer_group  # Before anybody can read one.
        storing.add_done_callback(self._note_stored)
        return await asyncio.shield(storing)  # Others may wait for it, too.

    async def begun(self, consumer_group: str) -> None:
        """Wait until all offsets at which a group is beginning are safe, or have failed.

        A member that read one before would skip messages if it was lost then.
        """
        beginnings = [each for each, group in self._beginnings.items() if group == consumer_group]
        if beginnings:
            await asyncio.wait(beginnings)

    async def _store_all(
        self,
        consumer_group: str,
        client_id: str,
        offsets: Sequence[OffsetToStore],
        *,
        durable: bool,
    ) -> list[tuple[QueueKey, ServiceError]]:
        refused = await in_turns(self._put_all(consumer_group, client_id, offsets))
        if durable:
            only_raises = all(one.rule is StoreRule.RAISE for one in offsets)
            await (self._saved.save() if only_raises else self._save_and_replicate())
        return refused

    async def _save_and_replicate(self) -> None:
        await self._saved.save()
        await self._replicate()

    def _note_stored(self, storing: asyncio.Future[Any]) -> None:
        self._beginnings.pop(storing, None)
        if not storing.cancelled():
            storing.exception()  # It is the waiting caller's, which may have gone.

    async def reset(
        self,
        consumer_group: str,
        topic: str,
        target: Callable[[QueueKey], int | None],
        *,
        named_queues: Collection[int] = (),
        validate_only: bool,
    ) -> tuple[list[GroupOffset], int]:
        """Reset a group's offsets in a topic, durably, and notify its members.

        Args:
            consumer_group: The group.
            topic: The topic.
            target: The new offset of a queue; None leaves it as it is.
            named_queues: Queues that must exist.
            validate_only: Whether only to return the offsets without changing them.

        Returns:
            The new offsets by queue, and the number of notified members.

        Raises:
            ServiceError: GROUP_NOT_FOUND, TOPIC_NOT_FOUND, QUEUE_NOT_FOUND or
                QUEUE_OFFSET_OUT_OF_RANGE; then nothing has changed.
        """
        self._groups.get(consumer_group)
        config = readable_queue(self._topics, topic, 0, consumer_group)
        await in_turns(
            map(
                partial(readable_queue, self._topics, topic, consumer_group=consumer_group),
                named_queues,
            )
        )
        queues = (QueueKey(topic, queue_id) for queue_id in range(config.read_queue_count))
        targets = self._targets(consumer_group, queues, target)
        places = await self._cold_reads.in_turns(QUERIES, targets)
        if validate_only:
            return places, 0
        return places, await self._take_over(consumer_group, topic, places)

    async def clone(
        self, consumer_group: str, target_group: str, topic: str
    ) -> tuple[list[GroupOffset], int]:
        """Copy a group's offsets in a topic to another group, durably, and notify its members.

        Returns:
            The copied offsets by queue, and the number of notified members.

        Raises:
            ServiceError: GROUP_NOT_FOUND, GROUP_NAME_ILLEGAL, ACCESS_DENIED or TOPIC_NOT_FOUND.
        """
        self._groups.get(consumer_group)
        readable_queue(self._topics, topic, 0, consumer_group)
        await self._group_changes.admit(target_group)
        copied = await in_turns(self._offsets.walk(consumer_group, topic))
        places = await in_turns(place._replace(consumer_group=target_group) for place in copied)
        places.sort()
        return places, await self._take_over(target_group, topic, places)

    def _targets(
        self,
        consumer_group: str,
        queues: Iterable[QueueKey],
        target: Callable[[QueueKey], int | None],
    ) -> Iterator[GroupOffset | BytesCold | None]:
        """The new offset of each queue; None for one that stays as it is."""
        for queue in queues:
            yield None  # A search by time looks at several messages: it counts as two things.
            queue_offset = yield from warm(partial(target, queue))
            if queue_offset is None:
                yield None
                continue
            self._check_range(queue, queue_offset)
            yield GroupOffset(consumer_group, queue, ConsumerOffset(queue_offset))

    def _put_all(
        self, consumer_group: str, client_id: str, offsets: Sequence[OffsetToStore]
    ) -> Iterator[tuple[QueueKey, ServiceError] | None]:
        """Store each offset; yields its error if it is refused.

        Raises:
            ServiceError: GROUP_NOT_FOUND; it was deleted since the turn before, with all offsets.
        """
        for wanted in offsets:
            self._groups.get(consumer_group)
            try:
                self._put(consumer_group, client_id, wanted)
            except ServiceError as error:
                yield wanted.queue, error
            else:
                yield None

    def _put(self, consumer_group: str, client_id: str, wanted: OffsetToStore) -> None:
        queue = wanted.queue
        readable_queue(self._topics, *queue, consumer_group)
        if wanted.rule is StoreRule.BEGIN:
            if self._offsets.find(consumer_group, queue) is None:
                self._store_checked(consumer_group, wanted)
            return
        refusal = self._locks.refusal(consumer_group, client_id, queue, wanted.lock_epoch)
        if refusal is not None:
            raise refusal
        epoch = self._offsets.reset_epoch(consumer_group, queue)
        if wanted.reset_epoch is not None and wanted.reset_epoch < epoch:
            raise consumer_offset_reset(*queue, epoch)
        self._store_checked(consumer_group, wanted)

    def _store_checked(self, consumer_group: str, wanted: OffsetToStore) -> None:
        queue = wanted.queue
        self._epochs.check(queue, wanted.consumer_offset, wanted.log_epoch)
        # A slow consumer's offset may be below the oldest stored one; none may be beyond the end.
        self._check_range(queue, wanted.consumer_offset, offset_min=0)
        known = self._offsets.find(consumer_group, queue)
        if known is None or wanted.consumer_offset > known or wanted.rule is StoreRule.MOVE:
            self._offsets.put(consumer_group, queue, ConsumerOffset(wanted.consumer_offset))
            self._saved.mark_changed()

    def _check_range(
        self, queue: QueueKey, queue_offset: int, offset_min: int | None = None
    ) -> None:
        # The earlier primary may have handed out messages that are not confirmed here yet.
        begin, _ = self._store.queue_bounds(*queue)
        end = self._store.queue_end(*queue)
        if not (begin if offset_min is None else offset_min) <= queue_offset <= end:
            raise queue_offset_out_of_range(*queue, queue_offset, begin, end)

    async def _take_over(
        self, consumer_group: str, topic: str, places: Sequence[GroupOffset]
    ) -> int:
        """Reset offsets, durably, and notify the members; return their number."""
        numbers: list[tuple[int, int]] = []
        members = 0
        # A disk without space refuses before anything is reset.
        self._saved.mark_changed()
        await self._saved.save()
        try:
            await in_turns(self._reset_all(places, numbers))
            await self._save_and_replicate()
        finally:
            # Also where that was cut short, or replicas do not confirm it: offsets were reset here.
            if numbers:
                notice = OffsetsReset(consumer_group, topic, tuple(numbers))
                members = self._clients.notify_members(consumer_group, notice)
        return members

    def _reset_all(
        self, places: Sequence[GroupOffset], numbers: list[tuple[int, int]]
    ) -> Iterator[None]:
        """Reset each offset, and note queue id and offset of those that were."""
        for place in places:
            numbers.append(self._reset(place))
            yield None

    def _reset(self, place: GroupOffset) -> tuple[int, int]:
        """Reset an offset; returns queue id and offset.

        Raises:
            ServiceError: GROUP_NOT_FOUND, TOPIC_NOT_FOUND; it was deleted meanwhile, with all
                offsets.
        """
        self._groups.get(place.consumer_group)
        topic, queue_id = place.queue
        if self._topics.find(topic) is None:
            raise topic_not_found(topic)
        self._offsets.reset(place.consumer_group, place.queue, place.consumer_offset)
        self._saved.mark_changed()
        return queue_id, int(place.consumer_offset)


def _check(place: int, wanted: OffsetToStore) -> None:
    """Refuse a negative number.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    values = {"queue_id": wanted.queue.queue_id, "queue_offset": wanted.consumer_offset}
    for name, value in values.items():
        if value < 0:
            raise field_invalid(f"offsets[{place}].{name}", "must be 0 or more", value)
