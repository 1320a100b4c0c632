"""Queue locks for consuming in order: each (group, queue) has one owner, by a lease with an epoch.

::

    lock ──── renew ──── renew ──────────────── dead        the owner froze: it renews no more
    |<- 20 s ->|<- 20 s ->|<------- 60 s ------->|
                                                 lock       another member, with a larger epoch

An epoch is never given twice, not even after a restart: the largest one is on the disk before any
client gets it. Each request of an owner carries its epoch, and a request with another epoch
than the live lock's is refused. So a process that was frozen for longer than its lease, and
believes that it still owns the queue, changes nothing. Leases are measured by a clock that never
jumps.

Owners may rely on a lock for two thirds of the lease. An owner whose stream to the broker has
ended, and who has not renewed the lock by then, has stopped consuming, alive or not: others need
not wait longer::

    renewed ── renewed   the owner is killed: its stream ends
                  |<--------------- 40 s --------------->| another member may lock
                  |<------------------------ 60 s ------------------------>| while attached

Owners keep their locks over a restart of the broker. An owner that renewed before the restart may
have done so just before its end, so its lease begins anew. An owner that did not renew gains no
time from another restart: the file has the passed part of its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ariane_broker.errors.public_errors import queue_lock_fenced, queue_locked
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import at_once
from ariane_servicekit.errors import ServiceError

RELIED_SHARE: Final = 2 / 3
"""The part of the lease for which owners may rely on a lock."""

AGE_SAVE_S: Final = 5.0
"""How much of an owner's passed time may be lost at a restart."""


@dataclass(slots=True)
class QueueLock:
    """A lock of one queue for one group."""

    client_id: str
    """The owner."""
    epoch: int
    """Larger than every epoch of any queue before."""
    renewed: float
    """When the lock was last taken or renewed, in seconds of the monotonic clock."""
    of_life_before: bool = False
    """Whether that was before the broker's restart; ``renewed`` is then the time of the restart, or
    earlier."""


class OwnedLock(NamedTuple):
    """A lock that the caller owns."""

    queue: QueueKey
    """The queue."""
    epoch: int
    """The lock's epoch."""
    changed: bool
    """Whether the file must be saved before the caller gets the answer."""


class QueueLocks:
    """All queue locks of this broker, in memory."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        lease_seconds: float,
    ) -> None:
        """Start without locks; a lock holds for ``lease_seconds`` without renewal.

        ``now_ms`` gives the first epoch in a store that has no file of locks, or has lost it.
        """
        self._monotonic = monotonic
        self.lease_seconds = lease_seconds
        self._groups: dict[str, dict[QueueKey, QueueLock]] = {}
        self._epoch = now_ms()
        self._documented = monotonic()

    @property
    def relied_seconds(self) -> float:
        """How long an owner may rely on a lock, counted from before its request."""
        return self.lease_seconds * RELIED_SHARE

    def lock(
        self,
        consumer_group: str,
        client_id: str,
        queues: Iterable[QueueKey],
        *,
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[OwnedLock | None]:
        """Take free locks and renew the caller's own.

        Each lock is taken when it is asked for: other work may be done in between.

        Args:
            consumer_group: The group.
            client_id: The caller.
            queues: The queues that the caller wants.
            is_gone: Whether an owner, by its id, has no stream to this broker.

        Yields:
            Each lock that the caller owns now; None for a queue of another owner.
        """
        for queue in queues:
            now = self._monotonic()
            locks = self._groups.get(consumer_group, {})
            lock, changed = locks.get(queue), False
            if lock is None or self._may_be_taken(lock, now, is_gone):
                self._epoch += 1
                lock, changed = QueueLock(client_id, self._epoch, now), True
                self._groups.setdefault(consumer_group, {})[queue] = lock
            if lock.client_id != client_id:
                yield None
                continue
            # Without this, another restart would not give the owner its time.
            changed = changed or lock.of_life_before
            lock.renewed, lock.of_life_before = now, False
            yield OwnedLock(queue, lock.epoch, changed)

    def _is_dead(self, lock: QueueLock, now: float) -> bool:
        return lock.renewed + self.lease_seconds <= now

    def _may_be_taken(self, lock: QueueLock, now: float, is_gone: Callable[[str], bool]) -> bool:
        if self._is_dead(lock, now):
            return True
        return lock.renewed + self.relied_seconds <= now and is_gone(lock.client_id)

    def ages_due(self) -> Iterator[bool | None]:
        """Whether the file must be saved so that a restart gives no owner too much time.

        Yields once for each lock that is examined, and at last True if so.
        """
        if self._monotonic() < self._documented + AGE_SAVE_S:
            return
        for locks in list(self._groups.values()):
            for lock in list(locks.values()):
                if lock.of_life_before:
                    yield True
                    return
                yield None

    def unlock(
        self, consumer_group: str, client_id: str, queues: Mapping[QueueKey, int]
    ) -> Iterator[QueueKey | None]:
        """Release locks; yields each queue that had one, else None.

        Args:
            consumer_group: The group.
            client_id: The owner; locks of others stay.
            queues: The epoch of each; 0 for any epoch.
        """
        for queue, epoch in queues.items():
            locks = self._groups.get(consumer_group, {})
            lock = locks.get(queue)
            if lock is None or lock.client_id != client_id or epoch not in {0, lock.epoch}:
                yield None
                continue
            self._remove(consumer_group, queue)
            yield queue

    def refusal(
        self, consumer_group: str, client_id: str, queue: QueueKey, epoch: int | None
    ) -> ServiceError | None:
        """Why the caller may not consume the queue now; None if it may.

        Args:
            consumer_group: The group.
            client_id: The caller.
            queue: The queue.
            epoch: Epoch of the lock that the caller believes to own; None if none.
        """
        lock = self._groups.get(consumer_group, {}).get(queue)
        if lock is not None and self._is_dead(lock, self._monotonic()):
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

    def remove_topics(self, topics: Container[str]) -> Iterator[None]:
        """Forget the locks of topics that were deleted; yields once for each that is examined."""
        for group in list(self._groups):
            for queue in list(self._groups.get(group, ())):
                if queue.topic in topics:
                    self._remove(group, queue)
                yield None

    def _remove(self, consumer_group: str, queue: QueueKey) -> None:
        """Forget a lock, if there is one."""
        locks = self._groups.get(consumer_group, {})
        if locks.pop(queue, None) is not None and not locks:
            del self._groups[consumer_group]

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        (document,) = at_once(self.documented())
        return document

    def documented(self) -> Iterator[dict[str, Any] | None]:
        """The content of the file; yields once for each lock before.

        The largest epoch is taken last: it is not below that of any lock in the file.
        """
        now = self._documented = self._monotonic()
        table: dict[str, list[dict[str, Any]]] = {}
        for group, locks in list(self._groups.items()):
            entries = table[group] = []
            for queue, lock in list(locks.items()):
                yield None
                if not self._is_dead(lock, now):
                    entries.append(_entry(queue, lock, now))
        yield {"epoch": self._epoch, "lockTable": table}

    def load(self, document: Mapping[str, Any]) -> None:
        """Load a file; owners that renewed before the restart have a whole lease again.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: The file has another shape.
        """
        now = self._documented = self._monotonic()
        self._groups = {
            group: {
                QueueKey(str(entry["topic"]), int(entry["queueId"])): QueueLock(
                    str(entry["clientId"]),
                    int(entry["epoch"]),
                    now - int(entry.get("unrenewedMs", 0)) / 1000,
                    of_life_before=True,
                )
                for entry in entries
            }
            for group, entries in document["lockTable"].items()
        }
        self._epoch = int(document["epoch"])


def _entry(queue: QueueKey, lock: QueueLock, now: float) -> dict[str, Any]:
    """A lock as an entry of the file.

    Without ``unrenewedMs`` for a lock renewed since the start: the time of the last renewal before
    the process ends is not known yet.
    """
    entry = {
        "clientId": lock.client_id,
        "epoch": lock.epoch,
        "queueId": queue.queue_id,
        "topic": queue.topic,
    }
    if lock.of_life_before:
        entry["unrenewedMs"] = int((now - lock.renewed) * 1000)
    return entry
