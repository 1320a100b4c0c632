"""When a queue is better read from a replica: what lies far behind is in nobody's memory any more.

::

    the log      |------------------------------|===================|
                                                ^ boundary          ^ end: the memory's share before
    a queue      a   b     c    d          e    |  f      g     h
                     ^ next                     ends before f: b to e are read from a replica

The machine keeps in memory what was written last. Reading what lies further back takes the disk,
and pushes what is fresh out of memory, so that those who keep up pay for those who do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ariane_broker.queue_key import QueueKey
from ariane_storage.disk.disk import Disk
from ariane_storage.store import Store

MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where a container says what it may have of the machine's memory, in either version."""


class ReplicaHint(NamedTuple):
    """Where a queue is read on.

    Attributes:
        address: The replica.
        end_queue_offset: How far, exclusive; the replica has everything before it.
    """

    address: str
    end_queue_offset: int


class ReplicaHints:
    """Says where deep backlogs are read."""

    def __init__(
        self,
        store: Store,
        memory_bytes: int,
        replicas: Callable[[int], Sequence[str]],
    ) -> None:
        """Take the parts.

        Args:
            store: What is read.
            memory_bytes: How much of the end of the log is taken to be in memory.
            replicas: Where those are that have the log up to a commit-log offset, and let it be
                read.
        """
        self._store = store
        self._memory_bytes = memory_bytes
        self._replicas = replicas

    def of(self, queue: QueueKey, next_queue_offset: int) -> ReplicaHint | None:
        """Where a queue is read on from a queue offset; None: here."""
        boundary = self._store.max_offset - self._memory_bytes
        if boundary <= self._store.min_offset:
            return None
        replicas = self._replicas(boundary)
        if not replicas:
            return None
        end = self._store.queue_offset_behind(*queue, boundary)
        if next_queue_offset >= end:
            return None
        return ReplicaHint(replicas[queue.queue_id % len(replicas)], end)


def memory_bytes_of(disk: Disk, machine_bytes: int) -> int:
    """The memory that this process may use, as its container says; else the machine's.

    Args:
        disk: Where the limits are read.
        machine_bytes: The machine's.
    """
    for path in MEMORY_LIMITS:
        # "max", or no such file: there is no limit.
        with suppress(OSError, ValueError):
            return min(machine_bytes, int(disk.read(path)))
    return machine_bytes
