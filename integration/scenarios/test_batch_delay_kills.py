"""kill -9 of the broker while it publishes batches, much of which is for later: each row once.

KILL_SEED=7 .venv/bin/pytest integration/scenarios/test_batch_delay_kills.py
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import zlib
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from grpc import aio

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import ClusterClient, QueueReader
from ariane_testkit.closed_clusters import open_aio_channel

SEED = int(os.environ.get("KILL_SEED", "7"))
TOPIC = "reminders"
QUEUES = 2
ROWS_OF_STAGE = 1500
STAGES = 12
"""So much that publication takes some tenths of a second, in which the broker is killed."""


async def stage(transactions, batch_id, number, chance):
    """Stage one call's rows; the attempt that a commit names."""
    encoder = BlockEncoder(TOPIC, size_bytes_max=4 << 20)
    begin_ms = time.time_ns() // 1_000_000
    times_ms = []
    for row in range(ROWS_OF_STAGE):
        due_ms = chance.choice((0, begin_ms - 1000, begin_ms + chance.randrange(8000)))
        encoder.add(
            b"%d %d %d %d" % (batch_id, number, row, due_ms),
            unique_id=f"{batch_id}-{number}-{row}",
            born_timestamp_ms=begin_ms,
        )
        times_ms.append(due_ms)
    block = encoder.finish()
    await transactions.StageBatchRecords(
        transaction_pb.StageBatchRecordsRequest(
            query_id="q",
            batch_id=batch_id,
            partition_id=number,
            attempt_token="only",
            topic=TOPIC,
            record_sizes=block.sizes.astype("<i4").tobytes(),
            tag_codes=block.tag_codes.astype("<i4").tobytes(),
            key_counts=block.key_counts.tobytes(),
            key_hashes=block.key_hashes.astype("<i4").tobytes(),
            records_crc32=block.crc32,
            queue_ids=(np.arange(ROWS_OF_STAGE) % QUEUES).astype("<i4").tobytes(),
            delivery_times_ms=np.array(times_ms, "<i8").tobytes(),
            records=bytes(block.records),
        )
    )
    checksum = zlib.crc32(block.crc32.to_bytes(4, "little"))
    return transaction_pb.BatchAttempt(
        partition_id=number,
        attempt_token="only",
        record_count=ROWS_OF_STAGE,
        checksum=checksum,
    )


async def commit_through_kills(cluster, transactions, call, chance, kills):
    """Commit; the broker is killed while it does, and asked again."""
    (broker,) = cluster.brokers
    for _ in range(kills):
        committing = asyncio.ensure_future(transactions.CommitBatch(call))
        await asyncio.sleep(chance.uniform(0, 0.3))
        broker.kill()
        await broker.wait()
        with suppress(aio.AioRpcError):
            await committing
        await broker.restart()
    return await transactions.CommitBatch(call, wait_for_ready=True)


async def delivered(name_servers):
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(TOPIC)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += map(columns.message, range(len(columns)))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batches", [2, 8])
async def test_each_comes_once_though_the_broker_dies_while_it_publishes(
    local_cluster, until, batches
):
    chance = random.Random(SEED)
    async with (
        local_cluster("--producer-save-s", "0.3") as cluster,
        open_aio_channel(cluster.brokers[0].address) as channel,
    ):
        transactions = TransactionServiceStub(channel)
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=QUEUES)
        for batch_id in range(batches):
            attempts = [
                await stage(transactions, batch_id, number, chance) for number in range(STAGES)
            ]
            call = transaction_pb.CommitBatchRequest(
                query_id="q",
                batch_id=batch_id,
                attempts=attempts,
                record_count=STAGES * ROWS_OF_STAGE,
            )
            await commit_through_kills(cluster, transactions, call, chance, kills=3)
            assert (await transactions.CommitBatch(call)).duplicate
        count = batches * STAGES * ROWS_OF_STAGE

        async def all_there():
            async with QueueReader(cluster.name_servers) as reader:
                bounds = (await reader.bounds(TOPIC)).values()
                return sum(end - begin for begin, end in bounds) >= count

        await until(all_there, seconds=120)
        # Whatever came twice would do so now.
        await asyncio.sleep(1)
        found = await delivered(cluster.name_servers)
    counts = Counter(message.body for message in found)
    assert [body for body, times in counts.items() if times > 1] == [], f"twice: seed {SEED}"
    assert len(counts) == count, f"lost: seed {SEED}"
    for message in found:
        assert message.store_timestamp_ms >= int(message.body.split()[3]), f"early: seed {SEED}"
