"""The store as the broker holds it: composed before it is open, used only while it is.

The parts of the broker are put together before recovery, which opens the store in a thread of its
own. Calls are refused until then, so nothing here is reached too early; if it were, it would say
so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ariane_record import RecordBlock, RecordFields
from ariane_record.layout import Host
from ariane_record.single.record_copy import RecordCopy
from ariane_storage.errors import BytesUnreadable, StoreClosed, StoreFull
from ariane_storage.keeping.retention import RetentionPlan, RetentionReport
from ariane_storage.keeping.topic_deletion import TopicDeletion
from ariane_storage.log.believed_time import ClockDoubt
from ariane_storage.log.damage import Damage
from ariane_storage.log.fields import Int64s
from ariane_storage.log.scan import Stretch
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.read import QueueRead
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.recovery.recovery import ProgressCallback, RecoveryReport
from ariane_storage.store import Store
from ariane_storage.writing.append import Appended, AppendedTable
from ariane_storage.writing.block_table import BlockTable


class OwnedStore:
    """The one store of this process, as soon as it is open."""

    def __init__(self, open_store: Callable[[Host], Store]) -> None:
        """Take what opens it.

        Args:
            open_store: Opens and recovers the store of a host; blocks.
        """
        self._open_store = open_store
        self._append_refusal = ""
        self._needed_from: list[Callable[[], int | None]] = []
        self._store: Store | None = None

    def open(self, host: Host) -> None:
        """Open and recover; blocks, in a thread.

        Args:
            host: Address that is written into records, IPv4 or IPv6, and port.

        Raises:
            StorageError: As ``Store.open``.
        """
        self._store = self._open_store(host)

    def close(self) -> None:
        """Flush and let go; blocks. Repeating is harmless.

        Raises:
            StorePoisoned: The disk failed.
        """
        if self._store is not None:
            self._store.close()

    @property
    def _opened(self) -> Store:
        if self._store is None:
            raise StoreClosed("the store is not open yet")
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._store is not None

    def append_block(
        self, block: RecordBlock, queue_id: int, *, born_host: Host = ("127.0.0.1", 0)
    ) -> Appended:
        """Append a block to a queue; see ``Store.append_block``."""
        try:
            appended = self._opened.append_block(block, queue_id, born_host=born_host)
        except StoreFull as error:
            self._append_refusal = error.reason
            raise
        self._append_refusal = ""
        return appended

    def append_table(
        self, table: BlockTable, *, born_host: Host = ("127.0.0.1", 0)
    ) -> AppendedTable | None:
        """Append many small blocks at once; see ``Store.append_table``."""
        appended = self._opened.append_table(table, born_host=born_host)
        if appended is not None:
            self._append_refusal = ""
        return appended

    @property
    def append_refusal(self) -> str:
        """Why the last append found no room; nothing once there is room again."""
        return self._append_refusal

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: Filter | None = None,
    ) -> QueueRead:
        """Read messages of a queue; see ``Store.read_queue``."""
        return self._opened.read_queue(
            topic,
            queue_id,
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wanted=wanted,
        )

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Oldest queue offset that is kept, and the readable end."""
        return self._opened.queue_bounds(topic, queue_id)

    def queue_offset_at_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        *,
        boundary: TimeBoundary = TimeBoundary.LOWER,
    ) -> int:
        """The queue offset of a time; see ``Store.queue_offset_at_time``."""
        return self._opened.queue_offset_at_time(topic, queue_id, timestamp_ms, boundary=boundary)

    def queue_offset_behind(self, topic: str, queue_id: int, commit_log_offset: int) -> int:
        """The first queue offset behind; see ``Store.queue_offset_behind``."""
        return self._opened.queue_offset_behind(topic, queue_id, commit_log_offset)

    def queue_entries(
        self, topic: str, queue_id: int, queue_offset: int, *, max_count: int
    ) -> Entries:
        """Entries of a queue; see ``Store.queue_entries``."""
        return self._opened.queue_entries(topic, queue_id, queue_offset, max_count=max_count)

    def records_of(
        self,
        queue: tuple[str, int],
        queue_offsets: Int64s,
        commit_log_offsets: Int64s,
        sizes: Int64s,
    ) -> tuple[bytes, Int64s, Int64s]:
        """Records by what their entries say; see ``Store.records_of``."""
        return self._opened.records_of(queue, queue_offsets, commit_log_offsets, sizes)

    def check_lost(self, queue: tuple[str, int], queue_offsets: Int64s) -> None:
        """See that records are gone for good; see ``Store.check_lost``."""
        self._opened.check_lost(queue, queue_offsets)

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of every queue."""
        return self._opened.queues()

    def let_go_of_topics(self, topics: Collection[str]) -> TopicDeletion:
        """Let nobody find queues of topics any more; see ``Store.let_go_of_topics``."""
        return self._opened.let_go_of_topics(topics)

    def finish_deletion(self, deletion: TopicDeletion) -> None:
        """Delete topics durably; any thread."""
        self._opened.finish_deletion(deletion)

    def take_back(self, deletion: TopicDeletion) -> None:
        """Let queues be found again whose deletion has failed."""
        self._opened.take_back(deletion)

    def message_at(self, commit_log_offset: int) -> RecordFields:
        """The message at a commit-log offset; see ``Store.message_at``."""
        return self._opened.message_at(commit_log_offset)

    def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """What goes along of the record at a commit-log offset; see ``Store.copy_at``."""
        return self._opened.copy_at(commit_log_offset)

    def query_by_key(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int
    ) -> list[RecordFields]:
        """Messages by key or unique id; see ``Store.query_by_key``."""
        return self._opened.query_by_key(
            topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count
        )

    def stretches(self, begin: int) -> Iterator[Stretch]:
        """The records of the log; see ``Store.stretches``."""
        return self._opened.stretches(begin)

    def offset_before(self, timestamp_ms: int) -> int:
        """Below it all was stored before a time."""
        return self._opened.offset_before(timestamp_ms)

    def flush(self) -> int:
        """Force all that is appended to the disk; any thread."""
        return self._opened.flush()

    def flush_due(self) -> None:
        """Flush what is due; any thread."""
        self._opened.flush_due()

    @property
    def waiting_keys(self) -> int:
        """Keys that are not filed in the index yet."""
        return self._opened.waiting_keys

    def file_keys(self) -> None:
        """File the keys that wait in the index; any thread."""
        self._opened.file_keys()

    @property
    def needs_repair(self) -> bool:
        """Whether entries of queues lead astray."""
        return self._opened.repairs.needed

    def repair_queues(self, progress: ProgressCallback) -> list[QueueRepair]:
        """Make entries again that lead astray; any thread."""
        return self._opened.repairs.run(progress)

    def stop_repairs(self) -> None:
        """Let repairs end as soon as they can."""
        self._opened.repairs.stop()

    def prepare_next_segment(self) -> None:
        """Make room ready for coming appends; any thread."""
        self._opened.prepare_next_segment()
        self._append_refusal = ""

    @property
    def needed_from(self) -> int:
        """From which commit-log offset on somebody may need the log; on the loop.

        What is appended after this was asked is not known yet, so that all of it is needed.
        """
        floors = [needed() for needed in self._needed_from]
        return min([self.max_offset, *(floor for floor in floors if floor is not None)])

    @property
    def disk_used_ratio(self) -> float:
        """Share of the disk in use now, 0 to 1."""
        return self._opened.disk_used_ratio

    def believed_ms(self) -> int:
        """Milliseconds since the epoch for what grows old; a jump of the clock is doubted."""
        return self._opened.believed_time.now_ms()

    @property
    def clock_doubt(self) -> ClockDoubt | None:
        """How far the clock is ahead of what is believed; None when it is not."""
        return self._opened.believed_time.doubt

    @property
    def stamp_ahead_ms(self) -> int:
        """How far the newest store timestamp is ahead of the clock; 0 when it is not."""
        return self._opened.stamp_ahead_ms

    def plan_retention(self, keep_from: int) -> RetentionPlan:
        """Choose what is old enough and not needed; any thread."""
        return self._opened.plan_retention(keep_from=keep_from)

    def let_go(self, plan: RetentionPlan) -> None:
        """Let log and queues begin behind what goes; on the loop."""
        self._opened.let_go(plan)

    def finish_retention(self, plan: RetentionPlan) -> RetentionReport:
        """Delete what was let go of; any thread."""
        return self._opened.finish_retention(plan)

    def keep_needed(self, needed_from: Callable[[], int | None]) -> None:
        """Have retention delete nothing that somebody needs.

        Args:
            needed_from: Says from which commit-log offset on; None when nothing is needed.
        """
        self._needed_from.append(needed_from)

    @property
    def store_host(self) -> Host:
        """The address that is written into records."""
        return self._opened.config.store_host

    @property
    def min_offset(self) -> int:
        """First commit-log offset that is kept."""
        return self._opened.min_offset

    @property
    def max_offset(self) -> int:
        """Next commit-log offset to be written."""
        return self._opened.max_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before it is on the disk."""
        return self._opened.flushed_offset

    @property
    def confirmed_offset(self) -> int:
        """Everything before it may be handed out."""
        return self._opened.confirmed_offset

    @property
    def is_poisoned(self) -> bool:
        """Whether a flush has failed."""
        return self._opened.is_poisoned

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Damaged ranges of the log that are known, oldest first."""
        return self._opened.damage

    @property
    def unreadable(self) -> tuple[BytesUnreadable, ...]:
        """Places of consume queues and index that the disk could not read, in the order found."""
        return self._opened.unreadable

    @property
    def recovery(self) -> RecoveryReport:
        """What opening it has found and done."""
        return self._opened.recovery
