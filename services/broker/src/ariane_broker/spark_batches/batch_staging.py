"""Staging: records that many tasks store, and that nobody sees before their batch is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from ariane_broker.append.row_check import check_place, check_sizes
from ariane_broker.delay.parking import Parking
from ariane_broker.errors.public_errors import (
    block_corrupted,
    broker_draining,
)
from ariane_broker.errors.transactions import stages_exhausted, transaction_decided
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.records.batch_names import check_attempt, check_batch, name_of
from ariane_broker.spark_batches.records.batch_records import Stage, StageRequest, stage_record
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.stage_format import StagedBlock
from ariane_broker.topics.message_types import check_message_types
from ariane_broker.topics.system_topics import STAGE_TOPIC
from ariane_broker.topics.topic_changes import TopicChanges, check_user_topic
from ariane_broker.topics.topic_table import TopicMessageType
from ariane_record.layout import Host
from ariane_record.single.record_copy import encode_block
from ariane_servicekit.errors import field_invalid

STAGE_ROOM_BYTES: Final = 48 << 10
"""What a stage may have beyond the largest body, so that one message of that size fits with its
properties; segments have room for 64 KiB."""


STAGES_MAX: Final = 400_000
"""Stages of batches that are not committed, which are remembered for days; a user may have half of
them, or one query where nobody is asked who he is."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchStaging:
    """Stages records of batches."""

    log: BrokerLog
    table: BatchTable
    topics: TopicChanges
    parking: Parking
    _: KW_ONLY
    now_ms: Callable[[], int]
    body_bytes_max: int
    """Largest body of a message; the records of one call have a little more."""
    is_draining: Callable[[], bool]

    async def stage(self, request: StageRequest, born_host: Host) -> int:
        """Stage records of one attempt.

        Returns:
            The number of records that the attempt has staged.

        Raises:
            ServiceError: TRANSACTION_DECIDED if the batch is committed, SERVICE_BUSY if too much is
                staged, or the errors of an append.
            StorageError: Nothing is staged.
        """
        if self.is_draining():
            raise broker_draining()
        batch, attempt = request.batch, request.attempt
        check_batch(batch)
        check_attempt(attempt)
        block = request.staged.block
        await self._check_block(request.staged)
        if self.table.is_committed(batch):
            raise transaction_decided(name_of(batch), "COMMIT")
        stages = self.table.stages_of(batch, attempt)
        staged_count = sum(stage.record_count for stage in stages)
        if request.count_before not in {None, staged_count}:
            self._check_repeat(request, stages, staged_count)
            await self.log.promised(stages[-1].commit_log_offset + 1)
            return staged_count
        self._check_room(batch.query_id)
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

    def _check_room(self, query_id: str) -> None:
        """Refuse a stage more than there may be.

        Raises:
            ServiceError: SERVICE_BUSY.
        """
        counts, homes = self.table.stage_counts, self.table.homes
        limit = STAGES_MAX // 2
        if self.table.stage_count < limit:
            return
        if self.table.stage_count >= STAGES_MAX:
            raise stages_exhausted(STAGES_MAX)
        note = homes.get(query_id)
        owner = "" if note is None else note.owner
        theirs = [query for query, each in homes.items() if owner and each.owner == owner]
        if sum(counts[query] for query in theirs or [query_id]) >= limit:
            raise stages_exhausted(limit)

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
        check = partial(self.parking.check_table, block)
        config = await self.topics.create_for_send(block.topic, most, check)
        check()
        if not staged.times_ms.all():
            check_place(block.topic, most, config, TopicMessageType.NORMAL)
        if staged.times_ms.any():
            check_place(block.topic, most, config, TopicMessageType.DELAY)
        check_sizes(block, self.body_bytes_max)
        check_message_types(block, config)
        self.parking.check_staged(block, staged.times_ms)
