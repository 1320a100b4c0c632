"""The store: one folder, one process, one commit log and everything that is derived from it.

This is the facade; what is behind it is put together in ``opening``. Appends, reads and queries
belong to one thread, the broker's loop, and are short. ``flush``, ``flush_derived``, ``flush_due``,
``file_keys``, ``prepare_next_segment`` and ``apply_retention`` may run on others; nothing needs a
thread beside to be right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ariane_record import RecordBlock, RecordFields
from ariane_record.layout import CommitLogOffset, Host, QueueOffset
from ariane_record.single.record_copy import RecordCopy
from ariane_storage.config import StoreConfig
from ariane_storage.disk.clock import Clock, SystemClock
from ariane_storage.disk.disk import Disk, FileLock
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.errors import BytesUnreadable
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.keeping.retention import RetentionPlan, RetentionReport
from ariane_storage.keeping.topic_deletion import TopicDeletion
from ariane_storage.log.believed_time import BelievedTime
from ariane_storage.log.damage import Damage
from ariane_storage.log.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.log_walk import offset_before, stretches_of_log
from ariane_storage.reading.queue_reader import QueueName, QueueReader
from ariane_storage.reading.read import QueueRead
from ariane_storage.reading.record_finder import RecordFinder
from ariane_storage.reading.selection import Selection
from ariane_storage.recovery.opening import open_parts
from ariane_storage.recovery.queue_repairs import QueueRepairs
from ariane_storage.recovery.recovery import ProgressCallback, RecoveryReport
from ariane_storage.store_files import StoreFiles, mark_stopped
from ariane_storage.writing.append import Appended, AppendedTable
from ariane_storage.writing.appender import Appender
from ariane_storage.writing.block_table import BlockTable

_NO_HOST: Host = ("127.0.0.1", 0)


class Store:
    """An open store; make one with ``Store.open``.

    Attributes:
        recovery: What opening it has found and done.
        repairs: Makes entries of queues again that reads have found to lead astray.
    """

    def __init__(
        self, parts: StoreParts, lock: FileLock, keeper: Keeper, recovery: RecoveryReport
    ) -> None:
        self._parts = parts
        self._lock = lock
        self._keeper = keeper
        self._finder = RecordFinder(parts)
        self._appender = Appender(parts)
        self._reader = QueueReader(parts)
        self.recovery = recovery
        self.repairs = QueueRepairs(parts.repairs, keeper.repair_queues)

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
    ) -> Store:
        """Own a folder, recover what is in it, and be ready.

        Args:
            root: Folder of the store; made if it is not there.
            config: Settings; file sizes must be those that the store was written with.
            disk: The file system of the machine unless given.
            clock: The clock of the machine unless given.
            progress: Told now and then how far recovery is.
            rebuild: Whether to build consume queues and index again, from the log, in any case.

        Raises:
            StoreLocked: Another process has it open.
            StoreFormatError: Files of another size or of a newer version.
            StoreFull: No space for what recovery has to write.
            OSError: The disk failed.
        """
        disk = disk or OsDisk()
        parts, lock, keeper, report = open_parts(
            StoreFiles(disk.real_path(root)),
            config or StoreConfig(),
            disk,
            clock or SystemClock(),
            progress,
            rebuild=rebuild,
        )
        return cls(parts, lock, keeper, report)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def config(self) -> StoreConfig:
        """Its settings."""
        return self._parts.config

    @property
    def root(self) -> Path:
        """Its folder."""
        return self._parts.files.root

    # Appending.

    def append_block(
        self, block: RecordBlock, queue_id: int, *, born_host: Host = _NO_HOST
    ) -> Appended:
        """Append a block of records to a queue: into the log, the queue and the index.

        When this returns the records are in memory that survives the process. They survive power
        loss once ``flush`` has returned an offset of at least ``next_commit_log_offset``.

        Args:
            block: Records and their columns.
            queue_id: Number of the queue within the topic of the block.
            born_host: Where the producer was seen.

        Raises:
            BlockRejected: The block is not what it claims to be.
            IllegalQueue: Topic or queue id cannot name a folder.
            StoreFull: No space; appends work again when there is some.
            StorePoisoned: A flush has failed.
            StoreClosed: The store was closed.
        """
        return self._appender.append(block, queue_id, born_host)

    def append_table(
        self, table: BlockTable, *, born_host: Host = _NO_HOST
    ) -> AppendedTable | None:
        """Append many small blocks at once, all of them or none.

        Args:
            table: The blocks.
            born_host: Where the producer was seen.

        Returns:
            Where each went; None when they are to be appended one by one, which also tells what is
            wrong with those that are not sound.

        Raises:
            IllegalQueue: As ``append_block``, whose other errors come too but BlockRejected.
        """
        return self._appender.append_table(table, born_host)

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
    ) -> QueueRead:
        """Read messages of a queue, in order.

        Args:
            topic: Topic of the queue.
            queue_id: Its number within the topic.
            queue_offset: Where to start.
            max_count: Messages at most.
            max_bytes: Bytes at most, but always one message if there is any.
            wanted: Says which messages are; None for all.
            readable_end: Hand out nothing beyond this commit-log offset; None: what is confirmed.

        Raises:
            QueueOffsetOutOfRange: Below the oldest kept, or beyond the next to be written.
            QueueUnderRepair: The entry at ``queue_offset`` leads astray; see ``repairs``.
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
        )

    def queue_bounds(
        self, topic: str, queue_id: int, *, readable_end: int | None = None
    ) -> tuple[QueueOffset, QueueOffset]:
        """The oldest queue offset kept, and the end of the readable part (exclusive).

        A queue that nothing was appended to has (0, 0).
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
            readable_end: As in ``read_queue``, whose errors come too.
        """
        return QueueOffset(
            self._reader.at_time(topic, queue_id, timestamp_ms, boundary, readable_end)
        )

    def queue_offset_behind(self, topic: str, queue_id: int, commit_log_offset: int) -> QueueOffset:
        """The first queue offset whose record lies at or behind a commit-log offset.

        The end of the readable part if there is none.
        """
        return QueueOffset(self._reader.offset_behind(topic, queue_id, commit_log_offset))

    def queue_entries(
        self, topic: str, queue_id: int, queue_offset: int, *, max_count: int
    ) -> Entries:
        """Entries of a queue as they are kept, what is not confirmed yet included.

        Args:
            topic: Topic of the queue.
            queue_id: Its number within the topic.
            queue_offset: Where to start; below the oldest kept, they start there.
            max_count: Entries at most.
        """
        return self._reader.entries(topic, queue_id, queue_offset, max_count)

    def records_of(
        self, queue: QueueName, queue_offsets: Int64s, commit_log_offsets: Int64s, sizes: Int64s
    ) -> tuple[bytes, Int64s, Int64s]:
        """Records of one queue, even a deleted one, by where they are said to lie.

        Args:
            queue: Topic and queue id.
            queue_offsets: Of each record.
            commit_log_offsets: Where each starts, in the order of the log.
            sizes: Bytes of each.

        Returns:
            The records back to back, the size of each, and the queue offset of each: those that
            are damaged, or not where they are said to lie, are missing.
        """
        selection = Selection(queue_offsets, commit_log_offsets, sizes, next_queue_offset=0)
        return self._reader.records(queue, selection)

    def check_lost(self, queue: QueueName, queue_offsets: Int64s) -> None:
        """See that records that ``records_of`` did not give are damaged or gone for good.

        Raises:
            QueueUnderRepair: The entry of one leads astray, or has been mended since: what entries
                of the queue have said before is void.
        """
        self._reader.check_lost(queue, queue_offsets)

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of every queue that was ever appended to and not deleted."""
        queues = self._parts.queues
        return sorted((queue.topic, queue.queue_id) for queue in queues if queue.end_offset)

    def message_at(self, commit_log_offset: int) -> RecordFields:
        """The message whose record starts at a commit-log offset.

        Raises:
            RecordNotFound: No record starts there, or it is not confirmed yet.
            RecordCorrupted: Its bytes are not what was written.
        """
        return self._finder.message_at(commit_log_offset)

    def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """What goes along of the record at a commit-log offset when it is stored anew.

        Raises:
            RecordNotFound: No record starts there, or it is not confirmed yet.
            RecordCorrupted: Its bytes are not what was written.
        """
        return self._finder.copy_at(commit_log_offset)

    def store_timestamp_at(self, commit_log_offset: int) -> int:
        """When the record at a commit-log offset was stored, in milliseconds.

        Raises:
            RecordNotFound: No record starts there.
            RecordCorrupted: Its size is impossible.
        """
        return self._finder.store_timestamp_at(commit_log_offset)

    def stretches(self, begin: int) -> Iterator[Stretch]:
        """The records of the log, in its order, some at a time: for rebuilding state from them.

        Goes through the log: for starting, not for serving.

        Args:
            begin: Commit-log offset to start from, which is or once was the end of the log.
        """
        return stretches_of_log(self._parts.log, begin)

    def offset_before(self, timestamp_ms: int) -> CommitLogOffset:
        """A commit-log offset, not far back, below which all was stored before a time."""
        return CommitLogOffset(offset_before(self._parts.log, self._finder, timestamp_ms))

    def query_by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 1 << 62, max_count: int = 32
    ) -> list[RecordFields]:
        """Messages with a key or a unique id, newest first.

        Args:
            topic: Their topic.
            key: One of their keys, or their unique id.
            begin_ms: Earliest store timestamp, inclusive.
            end_ms: Latest store timestamp, inclusive.
            max_count: Messages at most.
        """
        return self._finder.by_key(
            topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count
        )

    # Positions in the commit log.

    @property
    def min_offset(self) -> CommitLogOffset:
        """The first byte of the log that is kept."""
        return CommitLogOffset(self._parts.log.min_offset)

    @property
    def max_offset(self) -> CommitLogOffset:
        """Where the next record goes (exclusive end)."""
        return CommitLogOffset(self._parts.log.write_offset)

    @property
    def flushed_offset(self) -> CommitLogOffset:
        """Everything below is durable."""
        return CommitLogOffset(self._parts.log.flushed_offset)

    @property
    def confirmed_offset(self) -> CommitLogOffset:
        """Nothing at or above is handed out: it could still vanish."""
        return CommitLogOffset(self._parts.confirmed_offset)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Damaged ranges of the log that are known, oldest first."""
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
        """Make everything appended before the call durable. Any thread.

        One flush serves all who wait for it.

        Returns:
            The new ``flushed_offset``.

        Raises:
            StorePoisoned: It failed, or one has failed before. Nothing may be acknowledged.
        """
        return CommitLogOffset(self._keeper.flush())

    def flush_derived(self) -> None:
        """Flush, then write consume queues, index and checkpoint. Any thread.

        What recovery has to go through is what came after the last of these.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for them; nothing is lost.
        """
        self._keeper.flush_derived()

    def flush_due(self) -> None:
        """Flush what the intervals of the configuration say is due. Any thread; call it often.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; nothing is lost.
        """
        self._keeper.flush_due()

    @property
    def waiting_keys(self) -> int:
        """Keys of records that are not filed in the index yet; queries find them all the same."""
        return self._parts.index.pending_keys

    def file_keys(self) -> None:
        """File the keys that wait in the index. Any thread.

        Call it often beside appends: it keeps this off them, and the time that the disk takes when
        an index file is full. Without it an append that finds more keys waiting than
        ``StoreConfig.index_backlog_keys`` files some first, and so does every ``flush_derived``.

        Raises:
            StoreFull: No space for another index file; the keys go on waiting.
            StorePoisoned: The disk failed.
        """
        self._keeper.file_keys()

    def prepare_next_segment(self) -> None:
        """Allocate the next segment and make the coming bytes of memory ready. Any thread.

        Call it often beside appends: it keeps the time of the disk and of page faults off them.

        Raises:
            StoreFull: No space for the next segment; appends go on while this one lasts.
            StorePoisoned: The disk failed.
        """
        self._keeper.prepare_next_segment()

    def apply_retention(
        self, now_ms: int | None = None, *, keep_from: int | None = None
    ) -> RetentionReport:
        """Flush, delete old segments and what leads to them, and see how full the disk is.

        A disk above the refusing ratio stops appends until a later call finds it below.

        Views that readers hold stay valid. The appending thread; a loop that must not wait for the
        disk takes the three steps of it one by one: ``plan_retention``, ``let_go`` and
        ``finish_retention``.

        Args:
            now_ms: The time; that of the clock unless given, where no jump of it is doubted.
            keep_from: Nothing at or behind this commit-log offset is deleted, however old.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for the notes that come first; nothing is deleted.
        """
        plan = self.plan_retention(now_ms, keep_from=keep_from)
        self.let_go(plan)
        return self.finish_retention(plan)

    def plan_retention(
        self, now_ms: int | None = None, *, keep_from: int | None = None
    ) -> RetentionPlan:
        """Flush, and choose the segments that go and where queues begin then. Any thread.

        Args:
            now_ms: The time; that of the clock unless given, where no jump of it is doubted.
            keep_from: Nothing at or behind this commit-log offset is deleted, however old.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note where queues end that will have no messages.
        """
        now = self._parts.believed_time.now_ms() if now_ms is None else now_ms
        return self._keeper.plan_retention(now, keep_from)

    def let_go(self, plan: RetentionPlan) -> None:
        """Let log and queues begin behind what goes. The appending thread; nothing is waited for.

        Reads of what lies before get an error that names where the queue begins now.
        """
        self._keeper.let_go(plan)

    def finish_retention(self, plan: RetentionPlan) -> RetentionReport:
        """Delete what was let go of and what leads to it, see how full the disk is. Any thread.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for derived files; the rest is deleted when the store is opened.
        """
        return self._keeper.finish_retention(plan)

    @property
    def believed_time(self) -> BelievedTime:
        """The time by which messages grow old."""
        return self._parts.believed_time

    @property
    def stamp_ahead_ms(self) -> int:
        """How far the newest store timestamp is ahead of the clock; 0 when it is not.

        Stamps never go back along the log: it is ahead once the clock was set back.
        """
        return max(0, self._parts.store_timestamp_ms - self._parts.clock.now_ms())

    @property
    def disk_used_ratio(self) -> float:
        """Share of the disk in use now, 0 to 1."""
        return self._parts.disk.usage(self._parts.log.folder).ratio

    def delete_queues(self, topic: str) -> int:
        """Delete all queues of a topic; its records stay in the log until they are too old.

        They are in no queue and under no key any more, also after a rebuild. A topic that is made
        again under the same name begins at nothing. The appending thread; a loop that must not wait
        for the disk takes the two steps of it one by one, for several topics at once:
        ``let_go_of_topics`` and ``finish_deletion``.

        Returns:
            How many queues there were.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note it; nothing is deleted.
        """
        deletion = self.let_go_of_topics([topic])
        try:
            self.finish_deletion(deletion)
        except BaseException:
            self.take_back(deletion)
            raise
        return len(deletion.queues)

    def let_go_of_topics(self, topics: Collection[str]) -> TopicDeletion:
        """Let nobody find the queues of topics any more. The appending thread; does not wait.

        Nothing is deleted yet. Whoever appends to one of these topics before that is finished loses
        what he appends.

        Raises:
            StoreClosed: The store was closed.
        """
        self._parts.check_open()
        return self._keeper.let_go_of_topics(topics)

    def finish_deletion(self, deletion: TopicDeletion) -> None:
        """Delete durably what was let go of. Any thread.

        Files of the queues go with the next ``flush_derived``, or when the store is opened.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space to note it; nothing is deleted, and all can be taken back.
            StoreClosed: The store was closed; nothing is deleted.
        """
        self._parts.check_open()
        self._keeper.finish_deletion(deletion)

    def take_back(self, deletion: TopicDeletion) -> None:
        """Let queues be found again whose deletion has failed. The appending thread."""
        self._keeper.take_back(deletion)

    def close(self) -> None:
        """Flush, write what is derived, and give the folder back. Idempotent.

        A poisoned store is only let go of: the next open recovers.

        Raises:
            StorePoisoned: The disk failed now.
        """
        parts = self._parts
        if not parts.is_open:
            return
        parts.is_open = False
        try:
            if not parts.guard.is_poisoned:
                self._keeper.flush_derived()
                parts.guard.run(lambda: mark_stopped(parts.disk, parts.files))
        finally:
            self._keeper.close()
            parts.log.close()
            parts.queues.close()
            parts.index.close()
            self._lock.release()
