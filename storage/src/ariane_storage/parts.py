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
    """All parts of an open store.

    Attributes:
        config: Its settings.
        disk: The disk with the store.
        clock: The clock.
        believed_time: The time by which messages age.
        files: Paths in it.
        log: The commit log.
        queues: All consume queues.
        index: The index.
        idle_queues: Ends of queues whose records are all deleted.
        deleted_topics: Offsets below which records of topics are deleted.
        quarantine: Damaged ranges of the commit log.
        unreadable: Places of derived files that the disk could not read.
        guard: Lets only one thread flush, and none after a failure.
        repairs: Queues with wrong entries.
        trusted_from: This process has written or checked all records from this commit-log offset
            on.
        store_timestamp_ms: Store timestamp of the newest record; the next one is not below.
        confirm_limit: Commit-log offset from which on replicas lack records, so that none is handed
            out; None without replicas.
        full_reason: Why writes are refused for lack of space; empty if they are not.
        is_open: Whether the store may be used.
    """

    config: StoreConfig
    disk: Disk
    clock: Clock
    believed_time: BelievedTime
    files: StoreFiles
    log: CommitLog
    queues: QueueTable
    index: Index
    idle_queues: IdleQueues
    deleted_topics: DeletedTopics
    quarantine: Quarantine
    unreadable: UnreadablePlaces
    guard: FlushGuard
    repairs: RepairRequests = field(default_factory=RepairRequests)
    trusted_from: int = 0
    store_timestamp_ms: int = 0
    confirm_limit: int | None = None
    full_reason: str = ""
    is_open: bool = True

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
