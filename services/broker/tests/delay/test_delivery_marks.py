"""Records that say where another one is, and are no mark of a delivery: nothing that waits is lost.

A mark names the end of the parked record that it takes out. A half message or a stage right behind
that record begins just there, and what names those must not pass for a mark.
"""

import asyncio
import time
import zlib

import numpy as np
import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_record import RecordFields, encode_block
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import CHECKS_EXHAUSTED_TOPIC, TIMER_TOPIC
from ariane_storage.store import Store


def in_an_hour():
    return np.array([time.time_ns() // 1_000_000 + 3_600_000], "<i8").tobytes()


@pytest.fixture
def crashed(running, copy_store):
    """A broker on the log as it is now, and on nothing that was remembered beside it."""

    def run():
        copy = copy_store()
        for name in ("delayOffset.json*", "timerProgress.json*"):
            for path in (copy / "config").glob(name):
                path.unlink()
        return running(store_path=copy)

    return run


async def come(broker, wanted, topic="later"):
    """Wait for all bodies; give them when there has been time for more."""
    async with asyncio.timeout(60):
        while not set(wanted) <= set(await broker.bodies(topic, hold_s=0.02)):
            pass
    await asyncio.sleep(0.2)
    return sorted(await broker.bodies(topic))


async def commit(broker, unique_id):
    return await broker.end_transaction(unique_id, client_pb.TRANSACTION_OUTCOME_COMMIT)


async def commit_batch(broker):
    batch = broker.batch("orders", [b"staged"])
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
    attempt = transaction_pb.BatchAttempt(
        attempt_token="a",
        record_count=1,
        checksum=zlib.crc32(batch.records_crc32.to_bytes(4, "little")),
    )
    await broker.transactions.CommitBatch(
        transaction_pb.CommitBatchRequest(
            query_id="q", attempts=[attempt], record_count=attempt.record_count
        )
    )


async def return_first(broker):
    """Send the first message of the orders back, as its consumer does when it fails."""
    (pulled,) = await broker.pull(("orders", 0, 0))
    sizes = np.frombuffer(pulled.record_sizes, "<i4")
    first = decode_columns(pulled.records, sizes).message(0)
    await broker.retries.ReturnMessage(
        retry_pb.ReturnMessageRequest(
            consumer_group="group",
            topic="orders",
            queue_id=0,
            commit_log_offset=first.commit_log_offset,
        )
    )


async def test_what_transactions_write_takes_out_nothing_that_waits(running, crashed, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.create_topic("later")
        group = group_pb.ConsumerGroup(consumer_group="group", consume_enabled=True, attempts_max=9)
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
        late = in_an_hour()
        await broker.store("later", [b"before a half"], delivery_times_ms=late)
        await broker.store_half("t-1")
        await broker.store("later", [b"before a parked one"], delivery_times_ms=late)
        await broker.store_half("t-2")
        await broker.store("later", [b"before a stage"], delivery_times_ms=late)
        await commit_batch(broker)
        await broker.store("later", [b"of a level"], delay_level=1)
        await broker.store_half("t-3")
        await commit(broker, "t-1")
        await commit(broker, "t-3")
        await broker.transactions.ParkTransaction(
            transaction_pb.ParkTransactionRequest(transaction_id="t-2", check_count=15)
        )
        await return_first(broker)
        wanted = [b"before a half", b"before a parked one", b"before a stage", b"of a level"]
        async with crashed() as survivor:
            clock.advance(3600)
            assert await come(survivor, wanted) == wanted


async def test_a_copy_that_names_its_half_message_takes_out_nothing(
    running, clock, tmp_path, settings_for
):
    async with running() as broker:
        await broker.create_topic("later")
        await broker.store("later", [b"a"], delivery_times_ms=in_an_hour())
    with Store.open(tmp_path / "store", settings_for().store_config()) as store:
        (entry,) = store.queue_entries(TIMER_TOPIC, 0, 0, max_count=9)
        behind = int(entry["commit_log_offset"]) + int(entry["size"])
        copy = RecordFields(topic=CHECKS_EXHAUSTED_TOPIC, body=b"paid", half_offset=behind)
        store.append(encode_block(CHECKS_EXHAUSTED_TOPIC, [copy]), 0)
    clock.advance(3600)
    async with running() as broker:
        assert await come(broker, [b"a"]) == [b"a"]
