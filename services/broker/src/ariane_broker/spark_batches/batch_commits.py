"""Batch transactions: staged by many tasks, committed once, visible all or none.

This module stages and decides; ``batch_publication`` makes committed batches visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from ariane_broker.append.row_check import check_sizes, check_takes_delayed
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.delay.parking import Parking
from ariane_broker.errors.public_errors import (
    block_corrupted,
    broker_draining,
    message_type_mismatch,
    queue_not_found,
    topic_not_writable,
)
from ariane_broker.errors.transactions import (
    batch_differs,
    sink_moved,
    transaction_decided,
    transaction_not_found,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_records import (
    AttemptKey,
    BatchEvent,
    BatchKey,
    Contents,
    NamedAttempt,
    Stage,
    StageRequest,
    batch_record,
    checksum_of,
    contents_rows,
    stage_record,
)
from ariane_broker.spark_batches.batch_table import BatchTable, Progress
from ariane_broker.spark_batches.stage_format import StagedBlock
from ariane_broker.topics.message_types import check_message_types
from ariane_broker.topics.system_topics import BATCH_TOPIC, STAGE_TOPIC
from ariane_broker.topics.topic_changes import check_user_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_record.control_characters import holds_control_character
from ariane_record.encoding.block import encode_block
from ariane_record.layout import Host
from ariane_servicekit.errors import field_invalid

QUERY_ID_LENGTH_MAX: Final = 255
TOKEN_LENGTH_MAX: Final = 255
ATTEMPTS_MAX: Final = 100_000
STAGE_ROOM_BYTES: Final = 48 << 10
"""What a stage may have beyond the largest body, so that one message of that size fits with its
properties; segments have room for 64 KiB."""


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """The outcome of a commit."""

    duplicate: bool
    """Whether the batch had been committed before."""
    record_count: int
    """Its messages."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchCommits:
    """Stages, commits and aborts batches."""

    log: BrokerLog
    table: BatchTable
    topics: TopicsForSend
    publication: BatchPublication
    parking: Parking
    _: KW_ONLY
    broker_name: str
    """Sinks with another home are refused."""
    now_ms: Callable[[], int]
    body_bytes_max: int
    """Largest body of a message; the records of one call have a little more."""
    is_draining: Callable[[], bool]

    async def stage(self, request: StageRequest, born_host: Host) -> int:
        """Stage records of one attempt.

        Returns:
            The number of records that the attempt has staged.

        Raises:
            ServiceError: TRANSACTION_DECIDED if the batch is committed, SINK_MOVED if another
                broker is the home of the query, or the errors of an append.
            StorageError: Nothing is staged.
        """
        if self.is_draining():
            raise broker_draining()
        batch, attempt = request.batch, request.attempt
        _check_keys(batch, attempt)
        block = request.staged.block
        await self._check_block(request.staged)
        self._check_open(batch)
        stages = self.table.stages_of(batch, attempt)
        staged_count = sum(stage.record_count for stage in stages)
        if request.count_before not in {None, staged_count}:
            self._check_repeat(request, stages, staged_count)
            await self.log.promised(stages[-1].commit_log_offset + 1)
            return staged_count
        record = stage_record(request, self.now_ms())
        limit_bytes = self.body_bytes_max + STAGE_ROOM_BYTES
        if len(record.body) > limit_bytes:
            rule = f"of one call must have {limit_bytes} bytes at most, with their places"
            raise field_invalid("records", rule, len(record.body))
        appended = self.log.append(encode_block(STAGE_TOPIC, [record]), born_host=born_host)
        place = int(appended.first_commit_log_offset)
        stage = Stage(
            place, block.count, block.crc32, appended.store_timestamp_ms, len(block.records)
        )
        self.table.add_stage(batch, attempt, stage)
        await self.log.promised(appended.next_commit_log_offset)
        return staged_count + block.count

    async def commit(
        self, batch: BatchKey, attempts: Sequence[NamedAttempt], contents: Contents
    ) -> BatchCommitted:
        """Make the named attempts visible, and drop all others.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND, BATCH_DIFFERS, TOPIC_NOT_FOUND, SINK_MOVED.
            StorageError: It is not committed.
        """
        _check_batch(batch)
        if len(attempts) > ATTEMPTS_MAX:
            raise field_invalid("attempts", f"must be at most {ATTEMPTS_MAX}", len(attempts))
        if len({attempt.partition_id for attempt in attempts}) < len(attempts):
            raise field_invalid("attempts", "must name one for each partition")
        # Batches become visible in the order in which they were committed.
        await self.publication.finish(batch.query_id)
        if self.table.is_committed(batch):
            return await self._standing(batch, contents)
        self._check_home(batch.query_id)
        stages = self._named_stages(batch, attempts)
        count = sum(stage.record_count for stage in stages)
        if contents.record_count != count:
            rule = f"must be {count}: so many the attempts have staged"
            raise field_invalid("record_count", rule, contents.record_count)
        offsets = [stage.commit_log_offset for stage in stages]
        now_ms = self.now_ms()
        record = batch_record(
            BatchEvent.COMMIT,
            batch,
            now_ms,
            contents=contents_rows({batch.batch_id: contents}),
            stages=offsets,
        )
        appended = self.log.append_records(BATCH_TOPIC, [record])
        place = int(appended.first_commit_log_offset)
        progress = Progress(batch.batch_id, place, now_ms, {batch.batch_id: contents})
        self.table.commit(batch, offsets, progress)
        # From here on the decision is final: it is confirmed before any message is visible.
        await self.log.promised(appended.next_commit_log_offset)
        await self.publication.finish(batch.query_id)
        await self.log.promised()
        return BatchCommitted(duplicate=False, record_count=count)

    async def abort(self, batch: BatchKey) -> bool:
        """Drop staged records, unless the batch is committed; return whether it is.

        Raises:
            StorageError: Nothing is dropped.
        """
        _check_batch(batch)
        if self.table.is_committed(batch):
            return True
        if batch in self.table.staged:
            self.drop(batch)
            await self.log.promised()
        return False

    def drop(self, batch: BatchKey) -> None:
        """Drop staged records of a batch that is not committed.

        Raises:
            StorageError: Nothing is dropped.
        """
        record = batch_record(BatchEvent.ABORT, batch, self.now_ms())
        self.log.append_records(BATCH_TOPIC, [record])
        self.table.drop(batch)

    def progress_of(self, query_id: str) -> int | None:
        """The last committed batch of a query; None if there is none."""
        progress = self.table.progress.get(query_id)
        return None if progress is None else progress.batch_id

    async def _standing(self, batch: BatchKey, contents: Contents) -> BatchCommitted:
        """Answer a repeated commit; a batch without records cannot lose any."""
        before = self.table.contents_of(batch)
        if (contents.record_count or before is not None) and contents != before:
            count = None if before is None else before.record_count
            raise batch_differs(*batch, contents.record_count, count)
        await self.log.promised()
        return BatchCommitted(duplicate=True, record_count=contents.record_count)

    def _named_stages(self, batch: BatchKey, attempts: Sequence[NamedAttempt]) -> list[Stage]:
        """The stages of the named attempts, in the order of partitions."""
        named: list[Stage] = []
        for attempt in sorted(attempts):
            stages = self.table.stages_of(batch, AttemptKey(attempt.partition_id, attempt.token))
            count = sum(stage.record_count for stage in stages)
            checksum = checksum_of(stages) if stages else 0
            if (count, checksum) != (attempt.record_count, attempt.checksum):
                raise transaction_not_found(
                    f"{_name_of(batch)}, partition {attempt.partition_id}, attempt {attempt.token}"
                )
            named += stages
        return named

    def _check_open(self, batch: BatchKey) -> None:
        if self.table.is_committed(batch):
            raise transaction_decided(_name_of(batch), "COMMIT")
        self._check_home(batch.query_id)

    def _check_home(self, query_id: str) -> None:
        """Refuse a batch whose home is another broker, which alone decides about it."""
        note = self.table.homes.get(query_id)
        if note is not None and note.home.broker_name != self.broker_name:
            raise sink_moved(query_id, note.home.broker_name)

    @staticmethod
    def _check_repeat(request: StageRequest, stages: Sequence[Stage], staged_count: int) -> None:
        """Refuse a call that neither continues the attempt nor repeats a call."""
        last = stages[-1] if stages else None
        if (
            last is None
            or request.count_before != staged_count - last.record_count
            or last.records_crc32 != request.staged.block.crc32
            or last.record_count != request.staged.block.count
        ):
            rule = f"must be {staged_count}: so many this attempt has staged"
            raise field_invalid("record_count_before", rule, request.count_before)

    async def _check_block(self, staged: StagedBlock) -> None:
        """Refuse records that could not be appended as messages, so that the commit cannot fail."""
        block = staged.block
        if not block.count:
            raise block_corrupted(-1, "it has no records")
        least, most = int(staged.queue_ids.min()), int(staged.queue_ids.max())
        if least < 0:
            raise field_invalid("queue_ids", "must be 0 or more", least)
        check_user_topic(block.topic)
        config = await self.topics.find_or_create(block.topic, most, block)
        self.topics.check_table(block)
        if not config.writable:
            raise topic_not_writable(config.topic, int(config.permission))
        if most >= config.write_queue_count:
            raise queue_not_found(config.topic, most, config.write_queue_count)
        check_sizes(block, self.body_bytes_max)
        check_message_types(block, config)
        self._check_times(staged, config)

    def _check_times(self, staged: StagedBlock, config: TopicConfig) -> None:
        """Refuse delivery times that the topic would refuse at the commit."""
        if not staged.times_ms.all() and config.message_type is TopicMessageType.DELAY:
            raise message_type_mismatch(config.topic, config.message_type.value, "NORMAL")
        if staged.times_ms.any():
            check_takes_delayed(config)
            self.parking.check_staged(staged.block, staged.times_ms)


def _check_keys(batch: BatchKey, attempt: AttemptKey) -> None:
    _check_batch(batch)
    if attempt.partition_id < 0:
        raise field_invalid("partition_id", "must be 0 or more", attempt.partition_id)
    if not 1 <= len(attempt.token) <= TOKEN_LENGTH_MAX:
        raise field_invalid("attempt_token", f"must have 1 to {TOKEN_LENGTH_MAX} characters")


def check_query_id(query_id: str) -> None:
    """Refuse an illegal name of a query.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not 1 <= len(query_id) <= QUERY_ID_LENGTH_MAX:
        raise field_invalid("query_id", f"must have 1 to {QUERY_ID_LENGTH_MAX} characters")
    if holds_control_character(query_id):
        raise field_invalid("query_id", "must hold no control character")


def _check_batch(batch: BatchKey) -> None:
    check_query_id(batch.query_id)
    if batch.batch_id < 0:
        raise field_invalid("batch_id", "must be 0 or more", batch.batch_id)


def _name_of(batch: BatchKey) -> str:
    return f"batch {batch.batch_id} of query {batch.query_id}"
