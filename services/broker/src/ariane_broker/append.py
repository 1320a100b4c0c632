"""The one way into the commit log: packed blocks and plain messages end here.

All batches of a call are appended in one turn of the loop, each whole or not at all; then the call
waits once for what the broker promises. Nothing here looks at a single message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

import numpy as np

from ariane_broker.arrivals import Arrivals
from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.errors import (
    block_corrupted,
    broker_draining,
    message_too_large,
    message_type_mismatch,
    queue_not_found,
    store_poisoned,
    topic_not_found,
    topic_not_writable,
)
from ariane_broker.statistics import BrokerStatistics
from ariane_broker.topic_changes import user_topic_error
from ariane_broker.topic_table import TopicConfig, TopicMessageType
from ariane_record import RecordBlock
from ariane_record.layout import HEADER, HEADER_BYTES, Host
from ariane_servicekit.errors import ServiceError, feature_not_available, field_invalid
from ariane_storage.append import Appended
from ariane_storage.errors import BlockRejected, StorageError, StorePoisoned

BATCHES_MAX: Final = 4096
"""Batches of one call: each costs some 100 us of the loop, however small it is."""

_BODY_LENGTH_START: Final = HEADER_BYTES - 4
_PACKED_TYPES: Final = frozenset(
    {
        TopicMessageType.UNSPECIFIED,
        TopicMessageType.NORMAL,
        TopicMessageType.FIFO,
        TopicMessageType.MIXED,
    }
)
"""Types of topics that ordinary records go to; others have rooms of their own."""


class AcknowledgedLevel(StrEnum):
    """How safe a message is when its send is acknowledged."""

    MEMORY = "memory"
    FLUSHED = "flushed"


@dataclass(frozen=True, slots=True)
class Batch:
    """Records for one queue.

    Attributes:
        block: The records with their columns; None when the columns made no sense.
        topic: The topic of all of them.
        queue_id: The queue of all of them.
        error: Why there is no block.
        sequenced: Whether the producer asks for each batch to be stored once.
    """

    block: RecordBlock | None
    topic: str
    queue_id: int
    error: ServiceError | None = None
    sequenced: bool = False


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of one batch.

    Attributes:
        appended: Where it is stored; None when nothing of it is.
        error: Why it failed. With ``appended``: it is stored, and nobody knows how safely.
        level: How safe it is.
    """

    appended: Appended | None = None
    error: ServiceError | None = None
    level: AcknowledgedLevel | None = None


class AppendLog(Protocol):
    """What is asked of the store."""

    def append_block(self, block: RecordBlock, queue_id: int, *, born_host: Host = ...) -> Appended:
        """Append a block to a queue."""
        ...


class TopicSource(Protocol):
    """Where topics come from."""

    def find(self, topic: str) -> TopicConfig | None:
        """The topic, or None."""
        ...

    async def create_for_send(self, topic: str) -> TopicConfig | None:
        """The topic, made if it may be; None when it is unknown and stays so."""
        ...

    @property
    def auto_create_queue_count(self) -> int:
        """Queues that a topic made for a send has; 0 when none is made."""
        ...


class FlushWait(Protocol):
    """Waits for the disk."""

    async def wait(self, commit_log_offset: int) -> None:
        """Return once everything before this commit-log offset is on the disk."""
        ...


class AppendRecords:
    """Appends batches and waits for what the broker promises."""

    def __init__(
        self,
        log: AppendLog,
        topics: TopicSource,
        arrivals: Arrivals,
        statistics: BrokerStatistics,
        *,
        check_block: Callable[[RecordBlock], object],
        on_growth: Callable[[int], None],
        flush_wait: FlushWait | None,
        body_bytes_max: int,
        service_error: Callable[[Exception], ServiceError],
        monotonic: Callable[[], float],
    ) -> None:
        """Take the parts.

        Args:
            log: The store.
            topics: The topics of this broker.
            arrivals: Is told what was appended.
            statistics: Counts it.
            check_block: Checks a block without writing anything.
            on_growth: Is told where the log ends after each call.
            flush_wait: What an acknowledgement waits for; None when it waits for nothing.
            body_bytes_max: Largest body of a message.
            service_error: Makes errors of the store public.
            monotonic: Seconds that never go back.
        """
        self._log = log
        self._topics = topics
        self._arrivals = arrivals
        self._statistics = statistics
        self._check_block = check_block
        self._on_growth = on_growth
        self._flush_wait = flush_wait
        self._body_bytes_max = body_bytes_max
        self._service_error = service_error
        self._monotonic = monotonic
        self.draining = False

    async def append(self, batches: Sequence[Batch], born_host: Host) -> list[BatchOutcome]:
        """Append batches, in order, each whole or not at all.

        Args:
            batches: 1 to ``BATCHES_MAX``.
            born_host: Where the producer was seen.

        Returns:
            One outcome for each batch.

        Raises:
            ServiceError: Nothing was stored: SERVICE_DRAINING, STORE_POISONED or FIELD_INVALID.
        """
        if self.draining:
            raise broker_draining()
        if not 1 <= len(batches) <= BATCHES_MAX:
            raise field_invalid("batches", f"must be 1 to {BATCHES_MAX}", len(batches))
        for position, batch in enumerate(batches):
            if batch.queue_id < 0:
                field = f"batches[{position}].queue_id"
                raise field_invalid(field, "must be 0 or more", batch.queue_id)
        await self._create_topics(batches)
        outcomes: list[BatchOutcome] = []
        end = 0
        for batch in batches:
            outcome = self._append_one(batch, born_host)
            if outcome.appended is not None:
                end = outcome.appended.next_commit_log_offset
            elif isinstance(_cause(outcome.error), StorePoisoned) and not end:
                raise store_poisoned()
            outcomes.append(outcome)
        return await self._acknowledge(outcomes, end)

    async def _create_topics(self, batches: Sequence[Batch]) -> None:
        """Make the topics that are missing, each for a batch that could be stored in it."""
        queue_count = self._topics.auto_create_queue_count
        for batch in batches:
            if self._topics.find(batch.topic) is not None or batch.block is None:
                continue
            if batch.sequenced or batch.queue_id >= queue_count or user_topic_error(batch.topic):
                continue
            try:
                self._check_block(batch.block)
            except BlockRejected:
                continue
            await self._topics.create_for_send(batch.topic)

    def _append_one(self, batch: Batch, born_host: Host) -> BatchOutcome:
        try:
            block = self._checked(batch)
            begin = self._monotonic()
            appended = self._log.append_block(block, batch.queue_id, born_host=born_host)
        except (ServiceError, StorageError, OSError) as error:
            return BatchOutcome(error=self._service_error(error))
        seconds = self._monotonic() - begin
        self._statistics.count_append(appended.count, block.size_bytes, seconds)
        queue = QueueKey(batch.topic, batch.queue_id)
        self._arrivals.appended(queue, appended.next_commit_log_offset)
        return BatchOutcome(appended=appended)

    def _checked(self, batch: Batch) -> RecordBlock:
        """The block of a batch that may be appended; the store checks its inside."""
        if batch.sequenced:
            raise feature_not_available("sending with a producer sequence")
        config = self._topics.find(batch.topic)
        if config is None or config.system:
            raise user_topic_error(batch.topic) or topic_not_found(batch.topic)
        if not config.writable:
            raise topic_not_writable(batch.topic, int(config.permission))
        if batch.queue_id >= config.write_queue_count:
            raise queue_not_found(batch.topic, batch.queue_id, config.write_queue_count)
        if config.message_type not in _PACKED_TYPES:
            raise message_type_mismatch(batch.topic, config.message_type.value, "NORMAL")
        if batch.block is None:
            raise batch.error or block_corrupted(-1, "its columns make no sense")
        self._check_body_sizes(batch.block)
        return batch.block

    def _check_body_sizes(self, block: RecordBlock) -> None:
        """Refuse bodies beyond the limit; looks inside only where a record is large enough."""
        if block.size_bytes <= self._body_bytes_max:
            return
        sizes = block.sizes
        if not len(sizes) or int(sizes.max()) <= self._body_bytes_max:
            return
        if int(sizes.min()) < HEADER.itemsize or int(sizes.sum(dtype=np.int64)) != block.size_bytes:
            return  # The store says what is wrong with these.
        ends = np.cumsum(sizes, dtype=np.int64)
        for position in np.flatnonzero(sizes > self._body_bytes_max).tolist():
            start = int(ends[position]) - int(sizes[position])
            length_start = start + _BODY_LENGTH_START
            length = int.from_bytes(block.records[length_start : start + HEADER_BYTES], "big")
            if length > self._body_bytes_max:
                raise message_too_large(length, self._body_bytes_max, position)

    async def _acknowledge(self, outcomes: list[BatchOutcome], end: int) -> list[BatchOutcome]:
        """Wait for what is promised, once for all batches of the call."""
        if not end:
            return outcomes
        self._on_growth(end)
        level = AcknowledgedLevel.MEMORY
        failure: ServiceError | None = None
        if self._flush_wait is not None:
            try:
                await self._flush_wait.wait(end)
                level = AcknowledgedLevel.FLUSHED
            except ServiceError as error:
                failure = error
        return [
            replace(outcome, error=failure, level=level)
            if outcome.appended is not None
            else outcome
            for outcome in outcomes
        ]


def _cause(error: ServiceError | None) -> BaseException | None:
    return None if error is None else error.__cause__
