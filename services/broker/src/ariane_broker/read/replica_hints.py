"""Reading deep backlogs from a replica, since old messages are no longer in the page cache.

::

    the log      |------------------------------|===================|
                                                ^ boundary          ^ end: the memory's share before
    a queue      a   b     c    d          e    |  f      g     h
                     ^ next                     ends before f: b to e are read from a replica

The machine's page cache holds the latest writes. Reading further back uses the disk and evicts
fresh data, so consumers that are behind would slow down consumers that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ariane_broker.queue_key import QueueKey
from ariane_broker.replication.replica_set import ReadableReplica
from ariane_storage.disk.disk import Disk
from ariane_storage.store import Store

MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with a container's memory limit, of both cgroup versions."""


class ReplicaHint(NamedTuple):
    """The replica from which to read on."""

    address: str
    """The replica's address."""
    end_queue_offset: int
    """How far to read there, exclusive; the replica has all before it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaHints:
    """Chooses the replicas for reads of deep backlogs."""

    store: Store
    memory_bytes: int
    """Bytes at the end of the log that are assumed to be in memory."""
    replicas: Callable[[int], Sequence[ReadableReplica]]
    """Returns the replicas that have the log up to a commit-log offset and allow reads."""

    def of(self, queue: QueueKey, next_queue_offset: int, zone: str = "") -> ReplicaHint | None:
        """The replica from which to read on at a queue offset; None: this broker.

        One in the zone of the reader, if there is one.
        """
        boundary = self.store.max_offset - self.memory_bytes
        if boundary <= self.store.min_offset:
            return None
        replicas = self.replicas(boundary)
        if not replicas:
            return None
        end = self.store.queue_offset_behind(*queue, boundary)
        if next_queue_offset >= end:
            return None
        near = [replica for replica in replicas if zone and replica.zone == zone] or replicas
        return ReplicaHint(near[queue.queue_id % len(near)].address, end)


def memory_bytes_of(disk: Disk, machine_bytes: int) -> int:
    """The memory that this process may use: its container's limit, or else the machine's.

    Args:
        disk: The disk with the limit files.
        machine_bytes: The machine's memory.
    """
    for path in MEMORY_LIMITS:
        # "max", or no such file: no limit.
        with suppress(OSError, ValueError):
            return min(machine_bytes, int(disk.read(path)))
    return machine_bytes
