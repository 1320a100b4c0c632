"""Who may consume which queue in order: one owner of each (group, queue), by a lease with an epoch.

::

    lock ──── renew ──── renew ──────────────── dead        the owner froze: it renews no more
    |<- 20 s ->|<- 20 s ->|<------- 60 s ------->|
                                                 lock       another member, with a larger epoch

An epoch is never given twice, also not after a restart: the largest is on the disk before anybody
hears of it. Whatever an owner does carries its epoch, and what comes with another one than the
live lock's is refused; so a process that was frozen for longer than its lease, and believes that it
still owns the queue, changes nothing. Leases are measured by a clock that never jumps. Over a
restart of the broker owners keep their locks, for one whole lease from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.errors import queue_lock_fenced, queue_locked
from ariane_servicekit.errors import ServiceError

_LOCK_FIELDS: Final = ("clientId", "epoch", "queueId", "topic")


@dataclass(slots=True)
class QueueLock:
    """A lock of one queue for one group.

    Attributes:
        client_id: The owner.
        epoch: Larger than that of every lock that any queue had before.
        deadline: When it is dead unless renewed, in seconds of the monotonic clock.
    """

    client_id: str
    epoch: int
    deadline: float


class QueueLocks:
    """All queue locks of this broker, in memory."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        lease_seconds: float,
    ) -> None:
        """Start without locks.

        Args:
            monotonic: Seconds that never go back; measures leases.
            now_ms: Milliseconds since the epoch; only tells where epochs begin in a store that
                has no file of locks, or has lost it.
            lease_seconds: How long a lock holds without renewal.
        """
        self._monotonic = monotonic
        self.lease_seconds = lease_seconds
        self._groups: dict[str, dict[QueueKey, QueueLock]] = {}
        self._epoch = now_ms()

    def lock(
        self, consumer_group: str, client_id: str, queues: Iterable[QueueKey]
    ) -> tuple[dict[QueueKey, int], bool]:
        """Take or renew what is free or the caller's own.

        Returns:
            The epochs of the queues that the caller owns now, and whether any owner changed: then
            the locks must be on the disk before the caller hears of them.
        """
        now = self._monotonic()
        locks = self._groups.setdefault(consumer_group, {})
        owned: dict[QueueKey, int] = {}
        changed = False
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.deadline <= now:
                self._epoch += 1
                lock = locks[queue] = QueueLock(client_id, self._epoch, 0.0)
                changed = True
            if lock.client_id == client_id:
                lock.deadline = now + self.lease_seconds
                owned[queue] = lock.epoch
        if not locks:
            del self._groups[consumer_group]
        return owned, changed

    def unlock(self, consumer_group: str, client_id: str, queues: Mapping[QueueKey, int]) -> int:
        """Give locks back; how many there were.

        Args:
            consumer_group: The group.
            client_id: The owner; what others own stays locked.
            queues: The epoch of each; 0 means whatever it is.
        """
        locks = self._groups.get(consumer_group, {})
        count = 0
        for queue, epoch in queues.items():
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id and epoch in {0, lock.epoch}:
                del locks[queue]
                count += 1
        if not locks:
            self._groups.pop(consumer_group, None)
        return count

    def refusal(
        self, consumer_group: str, client_id: str, queue: QueueKey, epoch: int | None
    ) -> ServiceError | None:
        """Why the caller may not consume the queue now, or None.

        Args:
            consumer_group: The group.
            client_id: The caller.
            queue: The queue.
            epoch: Of the lock that it believes to have; None if it has none.
        """
        lock = self._groups.get(consumer_group, {}).get(queue)
        if lock is not None and lock.deadline <= self._monotonic():
            lock = None
        if lock is None:
            return None if epoch is None else queue_lock_fenced(*queue, epoch, 0)
        if lock.client_id == client_id and epoch == lock.epoch:
            return None
        if epoch is None:
            return queue_locked(*queue, lock.client_id, lock.epoch)
        return queue_lock_fenced(*queue, epoch, lock.epoch)

    def remove_group(self, consumer_group: str) -> None:
        """Forget the locks of a group that was deleted."""
        self._groups.pop(consumer_group, None)

    def remove_topic(self, topic: str) -> None:
        """Forget the locks of a topic that was deleted."""
        for group, locks in list(self._groups.items()):
            kept = {queue: lock for queue, lock in locks.items() if queue.topic != topic}
            if kept:
                self._groups[group] = kept
            else:
                del self._groups[group]

    def document(self) -> dict[str, Any]:
        """The file as it is to be written now."""
        now = self._monotonic()
        return {
            "epoch": self._epoch,
            "lockTable": {
                group: [
                    dict(
                        zip(
                            _LOCK_FIELDS,
                            (lock.client_id, lock.epoch, queue.queue_id, queue.topic),
                            strict=True,
                        )
                    )
                    for queue, lock in sorted(locks.items())
                    if lock.deadline > now
                ]
                for group, locks in sorted(self._groups.items())
            },
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Take over a file; its owners have a whole lease to renew.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: The file has another shape.
        """
        deadline = self._monotonic() + self.lease_seconds
        self._groups = {
            group: {
                QueueKey(str(entry["topic"]), int(entry["queueId"])): QueueLock(
                    str(entry["clientId"]), int(entry["epoch"]), deadline
                )
                for entry in entries
            }
            for group, entries in document["lockTable"].items()
        }
        self._epoch = int(document["epoch"])
