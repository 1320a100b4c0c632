"""A limit of sizes that is lowered applies to what is sent, and to nothing that is stored."""

import asyncio
import time
import zlib

import numpy as np

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_record.decoding.columns import decode_columns

LARGE = b"x" * 200_000


async def come(broker, topic, count):
    """The sizes of the bodies, once there are so many."""
    async with asyncio.timeout(60):
        while len(bodies := await broker.bodies(topic, hold_s=0.02)) < count:
            pass
    return sorted(map(len, bodies))


async def stage(broker):
    batch = broker.batch("staged", [LARGE])
    columns = ("topic", "record_sizes", "tag_codes", "key_counts", "key_hashes", "records_crc32")
    await broker.transactions.StageBatchRecords(
        transaction_pb.StageBatchRecordsRequest(
            query_id="q",
            attempt_token="a",
            queue_ids=bytes(4),
            records=batch.records,
            **{name: getattr(batch, name) for name in columns},
        )
    )
    return transaction_pb.BatchAttempt(
        attempt_token="a",
        record_count=1,
        checksum=zlib.crc32(batch.records_crc32.to_bytes(4, "little")),
    )


async def return_first(broker, topic):
    (pulled,) = await broker.pull((topic, 0, 0))
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    await broker.retries.ReturnMessage(
        retry_pb.ReturnMessageRequest(
            consumer_group="group",
            topic=topic,
            queue_id=0,
            commit_log_offset=columns.message(0).commit_log_offset,
        )
    )


async def test_a_lowered_limit_holds_up_nothing_that_is_stored(running, clock, reason_of):
    late = np.full(2, time.time_ns() // 1_000_000 + 3_600_000, "<i8").tobytes()
    async with running() as broker:
        for topic in ("failing", "later", "timed", "paid", "staged"):
            await broker.create_topic(topic)
        group = group_pb.ConsumerGroup(consumer_group="group", consume_enabled=True, attempts_max=9)
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
        await broker.store("failing", [LARGE])
        await broker.store("later", [b"small", LARGE], delay_level=1)
        await broker.store("timed", [b"small", LARGE], delivery_times_ms=late)
        await broker.store_half("t-1", LARGE, topic="paid")
        attempt = await stage(broker)
    async with running(message_bytes_max=1 << 16) as broker:
        for fields in ({}, {"delay_level": 1}):
            (result,) = await broker.append(broker.batch("later", [LARGE], **fields))
            assert reason_of(result.error) == "MESSAGE_TOO_LARGE"
        await broker.end_transaction("t-1", client_pb.TRANSACTION_OUTCOME_COMMIT, topic="paid")
        await broker.transactions.CommitBatch(
            transaction_pb.CommitBatchRequest(query_id="q", attempts=[attempt], record_count=1)
        )
        await return_first(broker, "failing")
        clock.advance(3601)
        assert await come(broker, "later", 2) == [5, len(LARGE)]
        assert await come(broker, "timed", 2) == [5, len(LARGE)]
        for topic in ("paid", "staged", "%RETRY%group"):
            assert await come(broker, topic, 1) == [len(LARGE)]
