"""A closed store, opened for reading, without a change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from ariane_storage.config import StoreConfig
from ariane_storage.disk.clock import SystemClock
from ariane_storage.disk.cold import BytesCold
from ariane_storage.disk.disk import Disk
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import BytesUnreadable, StateFileDamaged, StoreFormatError
from ariane_storage.index.index import Index
from ariane_storage.layout import find_layout
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.record_search import record_at
from ariane_storage.log.records.queue_identity import identity_of
from ariane_storage.log.segment_files import find_segments
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.store_files import StoreFiles, visit_store

_ENTRIES_AT_ONCE = 4096
_NO_END = 1 << 62


class ClosedStore:
    """A store that no process has open, for inspection."""

    def __init__(self, root: Path, disk: Disk) -> None:
        """Look at a store.

        Raises:
            StoreFormatError: The folder holds no store, or files of impossible lengths.
            StoreLocked: A process has it open.
            StateFileDamaged: The file with its sizes cannot be read.
        """
        self.disk = disk
        """The disk with the store."""
        self.files = StoreFiles(disk.real_path(root))
        """Paths in it."""
        self._lock = visit_store(disk, self.files)
        self.config = find_layout(disk, self.files).configure(StoreConfig())
        """Settings with the sizes of its files."""
        self.crashed = disk.size_of(self.files.abort) is not None
        """Whether its last run ended without a stop."""
        self.checkpoint = CheckpointFile(disk, self.files.checkpoint).load()
        """The newest valid checkpoint, or None."""
        found = find_segments(
            disk,
            self.files.commit_log,
            self.config.segment_bytes,
            self.checkpoint,
            crashed=self.crashed,
        )
        self.foreign_segments = found.foreign
        """First bytes, by name, of files with a segment's name that are no segments of it."""
        self.log = CommitLog(
            disk,
            self.files.commit_log,
            found.starts,
            segment_bytes=self.config.segment_bytes,
            writable=False,
        )
        """Its commit log."""
        self.unreadable = UnreadablePlaces()
        """Places of consume queues and index that the disk could not read."""
        self.queues = QueueTable(
            disk,
            self.files.consume_queues,
            file_entries=self.config.consume_queue_file_entries,
            open_max=self.config.files_open_max,
            writable=False,
            unreadable=self.unreadable,
        )
        """Its consume queues, as far as their files have entries."""
        self.queues.load(_NO_END, keep_rest=True)
        self.index = Index(
            disk,
            self.files.index,
            SystemClock(),
            slots=self.config.index_slots,
            items=self.config.index_items,
            writable=False,
            unreadable=self.unreadable,
        )
        """Its index."""
        self.deleted_topics = DeletedTopics(disk, self.files.deleted_topics)
        """Offsets below which records of topics are deleted; empty if unreadable."""
        with suppress(StateFileDamaged, IsADirectoryError):
            self.deleted_topics.load(self.log.min_offset)
        self.quarantine = Quarantine(disk, self.files.quarantine)
        """The known damaged ranges."""
        with suppress(IsADirectoryError):
            self.quarantine.load()
        self.index_fault = ""
        """Why the index cannot be read; empty if it can."""
        self.index_fault_path = ""
        """The unreadable index file, relative to the store's folder."""
        try:
            self.index.load()
        except StoreFormatError as error:
            self.index_fault = error.reason
            self.index_fault_path = str(error.path.relative_to(self.files.root))
        except BytesUnreadable as error:
            self.unreadable.note(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()
        self.queues.close()
        self.index.close()
        self._lock.release()

    def record_view(self, commit_log_offset: int) -> memoryview | None:
        """The bytes of the valid record at an offset, or None."""
        segment = self.log.segment_at(commit_log_offset)
        return None if segment is None else record_at(segment, commit_log_offset - segment.start)

    def queue_records(self, topic: str, queue_id: int) -> Iterator[memoryview | None]:
        """Records of a queue in order, by its entries; None for entries without a valid one."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return
        identity = identity_of(topic, queue_id, self.deleted_topics.end_of(topic))
        first = queue.first_at_or_above(self.log.min_offset)
        while first < queue.end_offset:
            entries = queue.entries(first, _ENTRIES_AT_ONCE)
            columns = entries["commit_log_offset"].tolist(), entries["size"].tolist()
            for queue_offset, (place, size) in enumerate(zip(*columns, strict=True), first):
                record = None if size == HOLE_SIZE else self.record_view(place)
                if record is not None and not identity.holds_one(
                    record, place, len(record), queue_offset
                ):
                    record = None  # It belongs to another queue.
                yield record
            first += len(entries)

    def key_records(self, topic: str, key: str) -> Iterator[memoryview]:
        """Records that the index holds under a key, newest first; collisions included.

        Records of deleted topics are left out.
        """
        deleted_end = self.deleted_topics.end_of(topic)
        for commit_log_offset in self.index.find(topic, key, begin_ms=0, end_ms=_NO_END):
            if isinstance(commit_log_offset, BytesCold):
                commit_log_offset.fetch()
                continue
            if commit_log_offset is None or commit_log_offset < deleted_end:
                continue
            record = self.record_view(commit_log_offset)
            if record is not None:
                yield record
