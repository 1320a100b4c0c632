"""Locking queues for members that consume in order, and releasing the locks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.errors.public_errors import client_not_attached
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import in_turns
from ariane_servicekit.errors import ServiceError, field_invalid

QUEUES_MAX: Final = 65536

_UNREADABLE: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_FOUND", "TOPIC_NOT_READABLE"})


@dataclass(frozen=True, slots=True, eq=False)
class QueueLocking:
    """Changes queue locks; the disk and replicas have a new owner before it gets its lock."""

    locks: QueueLocks
    clients: ClientTable
    topics: TopicTable
    saved: SavedState
    _: KW_ONLY
    copied: Callable[[], Awaitable[None]]
    """Waits until replicas have the saved state."""

    @property
    def relied_seconds(self) -> float:
        """How long an owner may rely on a lock without renewing it."""
        return self.locks.relied_seconds

    async def lock(
        self, consumer_group: str, client_id: str, queues: Sequence[QueueKey]
    ) -> dict[QueueKey, int]:
        """Lock free queues, and renew the caller's own locks.

        Returns:
            The epochs of the queues that the caller owns now. Queues that are not there or not
            readable are left out: a deleted topic must not cost a group the locks of its others.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, FIELD_INVALID, CLIENT_NOT_ATTACHED, TOPIC_NAME_ILLEGAL
                or TOPIC_RESERVED: then nothing has changed.
                BROKER_NOT_PRIMARY or REPLICATION_UNCONFIRMED: a failover may undo the change.
        """
        check_user_group(consumer_group)
        if len(queues) > QUEUES_MAX:
            raise field_invalid("queues", f"must be at most {QUEUES_MAX}", len(queues))
        self._check_member(consumer_group, client_id)
        readable = await in_turns(self._readable(queues, consumer_group))
        owned = dict(await in_turns(self._lock(readable, consumer_group, client_id)))
        # While others wait, the time that lost owners were silent must survive a restart: save it.
        if await in_turns(self.locks.ages_due()):
            self.saved.mark_changed()
        # Also without a change: an earlier call may have been cut short before its save.
        await self.saved.save()
        await self.copied()
        return owned

    async def unlock(
        self, consumer_group: str, client_id: str, queues: Mapping[QueueKey, int]
    ) -> int:
        """Release locks, and notify the other members; return the number of released locks.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL.
        """
        check_user_group(consumer_group)
        released: list[QueueKey] = []
        try:
            await in_turns(self._unlock(consumer_group, client_id, queues, released))
        finally:
            # Also of a call that was cut short: what it has released is free.
            if released:
                self.clients.notify_others(consumer_group, client_id)
        if released:
            await self.saved.save()
        return len(released)

    def _readable(
        self, queues: Iterable[QueueKey], consumer_group: str
    ) -> Iterator[QueueKey | None]:
        for queue in queues:
            try:
                readable_queue(self.topics, *queue, consumer_group)
            except ServiceError as error:
                if error.row.name not in _UNREADABLE:
                    raise
                yield None
            else:
                yield queue

    def _lock(
        self, queues: Iterable[QueueKey], consumer_group: str, client_id: str
    ) -> Iterator[tuple[QueueKey, int] | None]:
        """Lock queues; a change is marked with each, since the call may be cut short between."""
        taken = self.locks.lock(
            consumer_group,
            client_id,
            queues,
            is_gone=lambda owner: self.clients.membership(consumer_group, owner) is None,
        )
        for lock in taken:
            if lock is not None and lock.changed:
                self.saved.mark_changed()
            yield None if lock is None else (lock.queue, lock.epoch)

    def _unlock(
        self,
        consumer_group: str,
        client_id: str,
        queues: Mapping[QueueKey, int],
        released: list[QueueKey],
    ) -> Iterator[None]:
        """Release locks, and note those that were; see ``_lock``."""
        for queue in self.locks.unlock(consumer_group, client_id, queues):
            if queue is not None:
                self.saved.mark_changed()
                released.append(queue)
            yield None

    def _check_member(self, consumer_group: str, client_id: str) -> None:
        membership = self.clients.membership(consumer_group, client_id)
        if membership is None:
            raise client_not_attached(client_id, f" as a member of group {consumer_group!r}")
        if not membership.ordered:
            raise client_not_attached(client_id, " as one that consumes in order")
