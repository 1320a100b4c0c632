"""The store: one folder, one process, one commit log and everything that is derived from it.

This is the facade; ``opening`` puts its parts together. Appends, reads and queries belong to one
thread, the broker's loop, and are short. ``flush``, ``flush_derived`` and most of ``keeping`` may
run on other threads; no other thread is required.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ariane_record import RecordFields, RecordTable
from ariane_record.layout import CommitLogOffset, Host, QueueOffset
from ariane_record.single.record_copy import RecordCopy
from ariane_storage.config import StoreConfig
from ariane_storage.copying.log_copy import LogCopy
from ariane_storage.disk.clock import Clock, SystemClock
from ariane_storage.disk.cold import BytesCold
from ariane_storage.disk.disk import Disk, FileLock
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.errors import BytesUnreadable, StoreClosed
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.log.believed_time import ClockDoubt
from ariane_storage.log.damage import Damage
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.queues.repair_requests import RepairRequests
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.log_walk import offset_before, stretches_of_log
from ariane_storage.reading.queue_reader import QueueName, QueueReader
from ariane_storage.reading.read import QueueRead
from ariane_storage.reading.record_finder import KeyQuery, RecordFinder
from ariane_storage.reading.selection import Selection
from ariane_storage.recovery.opening import open_parts
from ariane_storage.recovery.recovery import ProgressCallback, RecoveryReport
from ariane_storage.store_files import StoreFiles, mark_stopped
from ariane_storage.writing.append import Appended
from ariane_storage.writing.appender import Appender
from ariane_storage.writing.property_check import Sequences

_NO_HOST: Host = ("127.0.0.1", 0)


class Store:
    """A store, open after ``recover``; ``Store.open`` does both.

    Separating the two lets a process put its parts together before recovery, which may take long
    and runs in a thread of its own. A store that is used before it is open raises StoreClosed.
    """

    _parts: StoreParts
    _lock: FileLock
    _finder: RecordFinder
    _appender: Appender
    _reader: QueueReader
    recovery: RecoveryReport
    """The report of its opening."""
    repairs: RepairRequests
    """Asks for repairs of queues: reads do, and the opening of the store."""
    keeping: Keeper
    """Upkeep beside appends and reads: due flushes, retention, deletion."""
    copying: LogCopy
    """The log as one of several copies: raw bytes, epochs, cutting its end."""

    def __init__(
        self,
        root: Path,
        config: StoreConfig | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set up without touching the disk.

        Args:
            root: Folder of the store; created if it does not exist.
            config: Settings; file sizes must be the ones that the store was written with.
            disk: The file system of the machine unless given.
            clock: The clock of the machine unless given.
        """
        self._root = root
        self._config = config or StoreConfig()
        self._disk = disk or OsDisk()
        self._clock = clock or SystemClock()

    @classmethod
    def open(
        cls,
        root: Path,
        config: StoreConfig | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        progress: ProgressCallback | None = None,
        rebuild: bool = False,
    ) -> Self:
        """Lock a folder, recover its store, and open it; see ``__init__`` and ``recover``."""
        store = cls(root, config, disk=disk, clock=clock)
        store.recover(progress=progress, rebuild=rebuild)
        return store

    def recover(
        self,
        host: Host | None = None,
        *,
        progress: ProgressCallback | None = None,
        rebuild: bool = False,
    ) -> None:
        """Lock the folder, recover the store, and open it; blocks.

        Args:
            host: Address that is written into records; by default that of the settings.
            progress: Called now and then with the progress of recovery.
            rebuild: Whether to rebuild consume queues and index from the log in any case.

        Raises:
            StoreLocked: Another process has it open.
            StoreFormatError: Files of another size or of a newer version.
            StoreFull: No space for the writes of recovery.
            OSError: The disk failed.
        """
        config = self._config if host is None else replace(self._config, store_host=host)
        files = StoreFiles(self._disk.real_path(self._root))
        parts, self._lock, self.keeping, self.recovery = open_parts(
            files, config, self._disk, self._clock, progress, rebuild=rebuild
        )
        self._finder = RecordFinder(parts)
        self._appender = Appender(parts)
        self._reader = QueueReader(parts)
        self.repairs = parts.repairs
        self.copying = LogCopy(parts, self.keeping)
        self._parts = parts

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            """Refuse attributes that ``recover`` has not set yet, or that do not exist."""
            if name in Store.__annotations__ and not self.is_open:
                raise StoreClosed("the store is not open yet")
            raise AttributeError(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def config(self) -> StoreConfig:
        """The settings."""
        return self._parts.config

    @property
    def is_open(self) -> bool:
        """Whether the store was opened, and not closed since."""
        return "_parts" in self.__dict__ and self._parts.is_open

    @property
    def root(self) -> Path:
        """The folder."""
        return self._parts.files.root

    # Appending.

    def append(
        self,
        table: RecordTable,
        *queue_ids: int,
        born_host: Host = _NO_HOST,
        sequences: Sequences = None,
    ) -> Appended:
        """Append a table of records, all rows or none: into the log, the queues and the index.

        When this returns the records are in memory that survives the process. They survive power
        loss once ``flush`` has returned an offset of at least ``next_commit_log_offset``.

        Args:
            table: Records and their columns.
            queue_ids: The queue of each row, within its topic.
            born_host: The producer's address.
            sequences: What the first record of each row must say of its place in the stream of its
                producer; None if the caller has compared it, or knows.

        Raises:
            BlockRejected: The table is inconsistent. Each row of several may be valid by itself.
            IllegalQueue: Topic or queue id cannot name a folder.
            StoreFull: No space; appends work again when there is some.
            StorePoisoned: A flush has failed.
            StoreClosed: The store was closed.
        """
        return self._appender.append(table, queue_ids, born_host, sequences)

    def append_own(self, topic: str, queue_id: int, body: bytes) -> tuple[int, int]:
        """Append a record of the broker's own; returns its begin and end. Errors as ``append``."""
        return self._appender.append_own(topic, queue_id, body)

    # Reading.

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: Filter | None = None,
        readable_end: int | None = None,
        now_ms: int = 0,
    ) -> QueueRead:
        """Read messages of a queue, in order.

        Args:
            topic: Topic of the queue.
            queue_id: Its number within the topic.
            queue_offset: The queue offset to start at.
            max_count: Messages at most.
            max_bytes: Bytes at most, but always one message if there is any.
            wanted: The filter; None for all messages.
            readable_end: Read nothing beyond this commit-log offset; None: the confirmed end.
            now_ms: What has expired by then is passed over; 0: nothing is.

        Raises:
            QueueOffsetOutOfRange: Below the oldest kept, or beyond the next offset.
            QueueUnderRepair: The entry at ``queue_offset`` is wrong; see ``repairs``.
            StoreClosed: The store was closed.
        """
        return self._reader.read(
            topic,
            queue_id,
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wanted=wanted,
            limit=readable_end,
            now_ms=now_ms,
        )

    def queue_bounds(
        self, topic: str, queue_id: int, *, readable_end: int | None = None
    ) -> tuple[QueueOffset, QueueOffset]:
        """The oldest queue offset kept, and the end of the readable part (exclusive).

        A queue that never had a message has (0, 0).
        """
        low, high = self._reader.bounds(topic, queue_id, readable_end)
        return QueueOffset(low), QueueOffset(high)

    def queue_offset_at_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        *,
        boundary: TimeBoundary = TimeBoundary.LOWER,
        readable_end: int | None = None,
    ) -> QueueOffset:
        """The queue offset of a store timestamp, exact to the millisecond.

        Args:
            topic: Topic of the queue.
            queue_id: Its number within the topic.
            timestamp_ms: The time, in milliseconds since the epoch.
            boundary: ``LOWER`` for the first message at or after it (the end of the queue if there
                is none), ``UPPER`` for the last one at or before it (the oldest kept if none).
            readable_end: See ``read_queue``, whose errors also occur.
        """
        return QueueOffset(
            self._reader.at_time(topic, queue_id, timestamp_ms, boundary, readable_end)
        )

    def queue_end(self, topic: str, queue_id: int) -> QueueOffset:
        """The next queue offset of a queue: the end of what is kept, confirmed or not.

        A consumer that another copy of this log has served may be behind the confirmed end.
        """
        return QueueOffset(self._reader.end(topic, queue_id))

    def queue_offset_behind(self, topic: str, queue_id: int, commit_log_offset: int) -> QueueOffset:
        """The first queue offset whose record is at or behind a commit-log offset.

        The end of the queue if there is none; includes records that are not confirmed.
        """
        return QueueOffset(self._reader.offset_behind(topic, queue_id, commit_log_offset))

    def show_from(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Hide messages of a queue before an offset from readers, until the store is closed."""
        self._reader.show_from(topic, queue_id, queue_offset)

    def queue_entries(
        self, topic: str, queue_id: int, queue_offset: int, *, max_count: int
    ) -> Entries:
        """Entries of a queue, including entries of records that are not confirmed.

        They start at the queue offset, or at the oldest kept if that is later.
        """
        return self._reader.entries(topic, queue_id, queue_offset, max_count)

    def records_of(
        self, queue: QueueName, queue_offsets: Int64s, commit_log_offsets: Int64s, sizes: Int64s
    ) -> tuple[bytes, Int64s, Int64s]:
        """Records of one queue, even a deleted one, by their expected places.

        Args:
            queue: Topic and queue id.
            queue_offsets: Of each record.
            commit_log_offsets: Expected start of each, in the order of the log.
            sizes: Bytes of each.

        Returns:
            The records back to back, the size of each, and the queue offset of each: damaged
                records, and those not at their places, are missing.
        """
        selection = Selection(queue_offsets, commit_log_offsets, sizes, next_queue_offset=0)
        return self._reader.records(queue, selection)

    def check_lost(self, queue: QueueName, queue_offsets: Int64s) -> None:
        """Check that records that ``records_of`` did not return are damaged or gone for good.

        Raises:
            QueueUnderRepair: An entry is wrong, or has been repaired since: earlier results from
                entries of the queue are void.
        """
        self._reader.check_lost(queue, queue_offsets)

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of every queue that was appended to and not deleted."""
        queues = self._parts.queues
        return sorted((queue.topic, queue.queue_id) for queue in queues if queue.end_offset)

    def walk_queues(self) -> Iterator[tuple[str, int] | None]:
        """The same in any order, as they are now; yields once for each that is examined.

        None for one without messages. The caller may do other work in between, even append.
        """
        for queue in self._parts.queues:
            yield (queue.topic, queue.queue_id) if queue.end_offset else None

    def message_at(self, commit_log_offset: int) -> RecordFields:
        """The message whose record starts at a commit-log offset.

        Raises:
            RecordNotFound: No record starts there, or it is not confirmed yet.
            RecordCorrupted: The record is damaged.
        """
        return self._finder.message_at(commit_log_offset)

    def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """The parts of such a record that its copy keeps; see ``message_at``."""
        return self._finder.copy_at(commit_log_offset)

    def store_timestamp_at(self, commit_log_offset: int) -> int:
        """When such a record was stored, in milliseconds; see ``message_at``."""
        return self._finder.store_timestamp_at(commit_log_offset)

    def stretches(self, begin: int) -> Iterator[Stretch]:
        """The records of the log in order, in parts, for rebuilding state.

        Reads the log: for the start of a process, not while it serves.

        Args:
            begin: Commit-log offset to start from, which is or once was the end of the log.
        """
        return stretches_of_log(self._parts.log, begin)

    def offset_before(self, timestamp_ms: int) -> CommitLogOffset:
        """A commit-log offset, not far back, below which every record was stored before a time."""
        return CommitLogOffset(offset_before(self._parts.log, self._finder, timestamp_ms))

    def search_by_key(self, query: KeyQuery) -> Iterator[RecordFields | BytesCold | None]:
        """Messages with a key or a unique id, newest first.

        Yields once for each item of the index that it examines, mostly None: the caller may do
        other work in between, even append. Where bytes are not in memory it yields them, which must
        be fetched before the next step.
        """
        return self._finder.by_key(query)

    def query_by_key(self, topic: str, key: str, **limits: int) -> list[RecordFields]:
        """The results of ``search_by_key``, however long it takes."""
        messages = []
        for found in self.search_by_key(KeyQuery(topic, key, **limits)):
            if isinstance(found, BytesCold):
                found.fetch()
            elif found is not None:
                messages.append(found)
        return messages

    def deleted_end(self, topic: str) -> CommitLogOffset:
        """Records of a topic, and for it, below this commit-log offset are deleted; 0: none are."""
        return CommitLogOffset(self._parts.deleted_topics.end_of(topic))

    # Positions in the commit log.

    @property
    def min_offset(self) -> CommitLogOffset:
        """The first byte of the log that is kept."""
        return CommitLogOffset(self._parts.log.min_offset)

    @property
    def max_offset(self) -> CommitLogOffset:
        """Commit-log offset of the next record (exclusive end)."""
        return CommitLogOffset(self._parts.log.write_offset)

    @property
    def flushed_offset(self) -> CommitLogOffset:
        """Everything below this commit-log offset is durable."""
        return CommitLogOffset(self._parts.log.flushed_offset)

    @property
    def confirmed_offset(self) -> CommitLogOffset:
        """The end of the records that readers may get: later ones could still be lost."""
        return CommitLogOffset(self._parts.confirmed_offset)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Known damaged ranges of the log, oldest first."""
        return self._parts.quarantine.ranges

    @property
    def unreadable(self) -> tuple[BytesUnreadable, ...]:
        """Places of consume queues and index that the disk could not read, in the order found."""
        return self._parts.unreadable.found

    @property
    def is_poisoned(self) -> bool:
        """Whether a flush has failed: no more writes until the store is opened again."""
        return self._parts.guard.is_poisoned

    # Keeping.

    def flush(self) -> CommitLogOffset:
        """Make all that was appended durable; one flush serves all who wait for it. Any thread.

        Returns:
            The new ``flushed_offset``.

        Raises:
            StorePoisoned: This flush failed, or an earlier one did. Acknowledge nothing.
        """
        return CommitLogOffset(self.keeping.flush())

    def flush_derived(self) -> None:
        """Flush, then write consume queues, index and checkpoint. Any thread.

        Recovery must read the records that were appended after the last call.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for these files; nothing is lost.
        """
        self.keeping.flush_derived()

    def believed_ms(self) -> int:
        """Milliseconds since the epoch, for ages: a jump of the clock is doubted."""
        return self._parts.believed_time.now_ms()

    @property
    def clock_doubt(self) -> ClockDoubt | None:
        """The doubt about the clock; None if it is believed."""
        return self._parts.believed_time.doubt

    @property
    def stamp_ahead_ms(self) -> int:
        """How far the newest store timestamp is ahead of a clock that was set back; else 0."""
        return max(0, self._parts.store_timestamp_ms - self._parts.clock.now_ms())

    @property
    def disk_used_ratio(self) -> float:
        """Share of the disk in use now, 0 to 1."""
        return self._parts.disk.usage(self._parts.log.folder).ratio

    def close(self) -> None:
        """Flush, write derived data, and release the folder. Idempotent.

        A poisoned store is only released: the next open recovers.

        Raises:
            StorePoisoned: The disk failed now.
        """
        if not self.is_open:
            return
        parts = self._parts
        parts.is_open = False
        try:
            if not parts.guard.is_poisoned:
                self.keeping.flush_derived()
                parts.guard.run(lambda: mark_stopped(parts.disk, parts.files))
        finally:
            self.keeping.close()
            parts.log.close()
            parts.queues.close()
            parts.index.close()
            self._lock.release()
