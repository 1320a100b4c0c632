"""Appending what transactions write: half messages, committed messages, op records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ariane_broker.append.append import AppendLog, AppendWatch
from ariane_broker.append.batch_outcome import AcknowledgedLevel
from ariane_broker.append.promised_outcomes import FlushWait
from ariane_broker.delay.delayed_append import DelayedAppend
from ariane_broker.delay.parking import Parked
from ariane_broker.groups.consumer_offsets import QueueKey
from ariane_record import RecordBlock, RecordFields
from ariane_record.encoding.block import encode_block
from ariane_record.layout import Host
from ariane_record.single.message import EMPTY_HOST
from ariane_record.single.record_copy import RecordCopy
from ariane_storage.writing.append import Appended

SYSTEM_QUEUE_ID: Final = 0
"""The one queue that each topic of the system has here."""


class ReadableLog(AppendLog, Protocol):
    """What is asked of the store."""

    @property
    def confirmed_offset(self) -> int:
        """Commit-log offset before which everything may be handed out."""
        ...

    @property
    def max_offset(self) -> int:
        """Next commit-log offset to be written."""
        ...

    @property
    def min_offset(self) -> int:
        """First commit-log offset that is kept."""
        ...

    def message_at(self, commit_log_offset: int) -> RecordFields:
        """The message at a commit-log offset."""
        ...

    def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """What goes along of the record at a commit-log offset."""
        ...

    def query_by_key(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int
    ) -> list[RecordFields]:
        """Messages by key or unique id, newest first."""
        ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Oldest queue offset that is kept, and the readable end."""
        ...


class TransactionLog:
    """Appends records of the system's own making, and waits for what the broker promises."""

    def __init__(
        self, log: ReadableLog, watch: AppendWatch, *, flush_wait: FlushWait | None
    ) -> None:
        """Take the parts.

        Args:
            log: The store.
            watch: Is told what was appended.
            flush_wait: What an acknowledgement waits for; None when it waits for nothing.
        """
        self.log = log
        self._watch = watch
        self._flush_wait = flush_wait

    def append(
        self, block: RecordBlock, queue_id: int = SYSTEM_QUEUE_ID, born_host: Host = EMPTY_HOST
    ) -> Appended:
        """Append a block to a queue.

        Raises:
            StorageError: Nothing is stored.
        """
        begin = self._watch.monotonic()
        appended = self.log.append_block(block, queue_id, born_host=born_host)
        self._watch.appended(QueueKey(block.topic, queue_id), appended, block.size_bytes, begin)
        self._watch.on_growth(appended.next_commit_log_offset)
        return appended

    def park(self, delayed: DelayedAppend, parked: Parked, born_host: Host) -> Appended:
        """Append records that are to be delivered later.

        Raises:
            StorageError: Nothing is stored.
        """
        begin = self._watch.monotonic()
        appended = delayed.append(parked, born_host=born_host)
        self._watch.appended(parked.queue, appended, parked.block.size_bytes, begin)
        self._watch.on_growth(appended.next_commit_log_offset)
        return appended

    def append_records(self, topic: str, records: Sequence[RecordFields]) -> Appended:
        """Append records to the one queue of a topic of the system.

        Raises:
            StorageError: Nothing is stored.
        """
        return self.append(encode_block(topic, records), born_host=records[0].born_host)

    @property
    def waits(self) -> bool:
        """Whether what the broker promises has to be waited for."""
        return self._flush_wait is not None

    async def promised(self, commit_log_offset: int) -> AcknowledgedLevel:
        """Wait until everything before a commit-log offset is as safe as the broker promises.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        if self._flush_wait is None:
            return AcknowledgedLevel.MEMORY
        await self._flush_wait.wait(commit_log_offset)
        return AcknowledgedLevel.FLUSHED

    async def message_at(self, commit_log_offset: int) -> RecordFields:
        """A message of this log, once it may be handed out.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: It is not there, or damaged.
        """
        await self._wait_confirmed(commit_log_offset)
        return self.log.message_at(commit_log_offset)

    async def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """What goes along of a record of this log, once it may be handed out.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: It is not there, or damaged.
        """
        await self._wait_confirmed(commit_log_offset)
        return self.log.copy_at(commit_log_offset)

    async def _wait_confirmed(self, commit_log_offset: int) -> None:
        if commit_log_offset >= self.log.confirmed_offset:
            await self.promised(commit_log_offset + 1)
