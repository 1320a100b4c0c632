"""The parts of an open store, shared by its readers, writer and keeper."""

from __future__ import annotations

from dataclasses import dataclass, field

from ariane_storage.config import FlushMode, StoreConfig
from ariane_storage.disk.clock import Clock
from ariane_storage.disk.disk import Disk
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import StoreClosed
from ariane_storage.index.index import Index
from ariane_storage.log.believed_time import BelievedTime
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.flush import FlushGuard
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.records.queue_identity import QueueIdentity, identity_of
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.idle_queues import IdleQueues
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.queues.repair_requests import RepairRequests
from ariane_storage.store_files import StoreFiles


@dataclass(slots=True, kw_only=True, eq=False)
class StoreParts:
    """All parts of an open store."""

    config: StoreConfig
    """Its settings."""
    disk: Disk
    """The disk with the store."""
    clock: Clock
    """The clock."""
    believed_time: BelievedTime
    """The time by which messages age."""
    files: StoreFiles
    """Paths in it."""
    log: CommitLog
    """The commit log."""
    queues: QueueTable
    """All consume queues."""
    index: Index
    """The index."""
    idle_queues: IdleQueues
    """Ends of queues whose records are all deleted."""
    deleted_topics: DeletedTopics
    """Offsets below which records of topics are deleted."""
    quarantine: Quarantine
    """Damaged ranges of the commit log."""
    unreadable: UnreadablePlaces
    """Places of derived files that the disk could not read."""
    guard: FlushGuard
    """Lets only one thread flush, and none after a failure."""
    repairs: RepairRequests = field(default_factory=RepairRequests)
    """Queues with wrong entries."""
    trusted_from: int = 0
    """This process has written or checked all records from this commit-log offset on."""
    store_timestamp_ms: int = 0
    """Store timestamp of the newest record; the next one is not below."""
    confirm_limit: int | None = None
    """Commit-log offset from which on replicas lack records, so that none is handed out; None
    without replicas."""
    full_reason: str = ""
    """Why writes are refused for lack of space; empty if they are not."""
    is_open: bool = True
    """Whether the store may be used."""

    def check_open(self) -> None:
        """Raise if the store is not open.

        Raises:
            StoreClosed: It was closed.
        """
        if not self.is_open:
            raise StoreClosed(f"{self.files.root}: the store is closed")

    def identity_of(self, queue: ConsumeQueue) -> QueueIdentity:
        """The fields that all records of a queue share."""
        return identity_of(queue.topic, queue.queue_id, self.deleted_topics.end_of(queue.topic))

    @property
    def confirmed_offset(self) -> int:
        """The end of the records that readers may get: under synchronous flush, the durable end."""
        sync = self.config.flush_mode is FlushMode.SYNC
        confirmed = self.log.flushed_offset if sync else self.log.write_offset
        limit = self.confirm_limit
        return confirmed if limit is None or confirmed < limit else limit

    def readable_end(self, limit: int | None) -> int:
        """The end of the records that readers may get; a caller can lower it but not raise it."""
        confirmed = self.confirmed_offset
        return confirmed if limit is None else min(limit, confirmed)
