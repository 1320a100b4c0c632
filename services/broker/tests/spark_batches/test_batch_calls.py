"""Batch transactions: staged by tasks, committed once, visible all or none, over any death."""

import asyncio
import time
import zlib
from collections import Counter

import numpy as np
import pytest

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.records.sink_homes import CONTENTS_KEPT
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage.errors import StoreFull


def stage_call(broker, bodies, *, token="a", partition=0, batch=0, topic="orders", **fields):  # noqa: S107 - no password
    encoder = BlockEncoder(topic, size_bytes_max=8 << 20)
    queue_ids = fields.pop("queue_ids", [number % 2 for number in range(len(bodies))])
    properties, group = fields.pop("properties", None), fields.pop("message_group", "")
    if "times_ms" in fields:
        fields["delivery_times_ms"] = np.array(fields.pop("times_ms"), "<i8").tobytes()
    for number, body in enumerate(bodies):
        encoder.add(
            body,
            tag="t" if number % 3 else "",
            keys=(f"k{number}",) if number % 2 else (),
            unique_id=f"{token}-{number}",
            properties=properties if number == 1 else None,
            message_group=group,
            born_timestamp_ms=1_700_000_000_000,
        )
    block = encoder.finish()
    values = {
        "query_id": "q",
        "batch_id": batch,
        "partition_id": partition,
        "attempt_token": token,
        "topic": topic,
        "record_sizes": block.sizes.astype("<i4").tobytes(),
        "tag_codes": block.tag_codes.astype("<i4").tobytes(),
        "key_counts": block.key_counts.tobytes(),
        "key_hashes": block.key_hashes.astype("<i4").tobytes(),
        "records_crc32": block.crc32,
        "queue_ids": np.array(queue_ids, "<i4").tobytes(),
        "records": bytes(block.records),
    }
    request = transaction_pb.StageBatchRecordsRequest(**(values | fields))
    return broker.transactions.StageBatchRecords(request), block.crc32


async def stage(broker, bodies, **fields):
    """Stage; give the attempt as a commit names it when this was all of it."""
    call, crc = stage_call(broker, bodies, **fields)
    response = await call
    return transaction_pb.BatchAttempt(
        partition_id=fields.get("partition", 0),
        attempt_token=fields.get("token", "a"),
        record_count=response.record_count,
        checksum=zlib.crc32(crc.to_bytes(4, "little")),
    )


def commit_call(broker, *attempts, batch=0, query="q", content_sum=2**64 - 1, count=None):
    staged_count = sum(attempt.record_count for attempt in attempts)
    return broker.transactions.CommitBatch(
        transaction_pb.CommitBatchRequest(
            query_id=query,
            batch_id=batch,
            attempts=attempts,
            record_count=staged_count if count is None else count,
            content_sum=content_sum,
        )
    )


def abort_call(broker, batch=0):
    return broker.transactions.AbortBatch(
        transaction_pb.AbortBatchRequest(query_id="q", batch_id=batch)
    )


async def progress(broker, query="q"):
    response = await broker.transactions.GetBatchProgress(
        transaction_pb.GetBatchProgressRequest(query_id=query)
    )
    return response.batch_id if response.HasField("batch_id") else None


async def visible(broker):
    return [await all_bodies(broker, queue_id) for queue_id in (0, 1)]


async def all_bodies(broker, queue_id):
    bodies = []
    while more := await broker.bodies("orders", queue_id, len(bodies)):
        bodies += more
    return bodies


async def test_a_topic_with_signs_of_rocketmq_is_staged_to(broker):
    topic = "shop%orders|eu"
    await broker.create_topic(topic, 2)
    await commit_call(broker, await stage(broker, [b"cup", b"teapot"], topic=topic))
    assert await broker.bodies(topic, 0) == [b"cup"]


@pytest.fixture
async def orders(broker):
    await broker.create_topic("orders", 2)
    return broker


async def test_a_batch_is_visible_once_it_is_committed(orders):
    first = await stage(orders, [b"0", b"1", b"2"], token="a", partition=1)
    second = await stage(orders, [b"3", b"4"], token="b", partition=0)
    await stage(orders, [b"lost"], token="c", partition=0)
    assert await visible(orders) == [[], []]
    assert await progress(orders) is None
    committed = await commit_call(orders, first, second)
    assert (committed.duplicate, committed.record_count) == (False, 5)
    # In the order of partitions, and of each attempt.
    assert await visible(orders) == [[b"3", b"0", b"2"], [b"4", b"1"]]
    assert await progress(orders) == 0
    again = await commit_call(orders, second, first)
    assert (again.duplicate, again.record_count) == (True, 5)
    assert (await abort_call(orders)).committed
    assert await visible(orders) == [[b"3", b"0", b"2"], [b"4", b"1"]]


async def test_commits_that_do_not_agree_are_refused(orders, refused):
    attempt = await stage(orders, [b"0", b"1"])
    for change in ({"record_count": 1}, {"checksum": 7}, {"attempt_token": "x"}):
        wrong = transaction_pb.BatchAttempt()
        wrong.CopyFrom(attempt)
        for name, value in change.items():
            setattr(wrong, name, value)
        failure = await refused(commit_call(orders, wrong))
        assert failure.reason == "TRANSACTION_NOT_FOUND", change
    assert await progress(orders) is None
    failure = await refused(commit_call(orders, attempt, count=3))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "record_count")
    await commit_call(orders, attempt)
    assert (await refused(stage_call(orders, [b"late"])[0])).reason == "TRANSACTION_DECIDED"
    assert await visible(orders) == [[b"0"], [b"1"]]


async def test_empty_batches_advance_and_later_ones_drop_earlier_ones(orders):
    await stage(orders, [b"old"], batch=3)
    assert (await commit_call(orders, batch=4)).record_count == 0
    assert await progress(orders) == 4
    assert (await commit_call(orders, batch=3)).duplicate
    assert await visible(orders) == [[], []]


async def differs(broker, refused, batch, count, content_sum):
    """What is told of a batch that comes again, nothing staged, with such contents."""
    call = commit_call(broker, batch=batch, count=count, content_sum=content_sum)
    failure = await refused(call)
    assert (failure.reason, failure.code) == ("BATCH_DIFFERS", "FAILED_PRECONDITION")
    assert failure.metadata["batch_id"] == str(batch)
    assert failure.metadata["record_count"] == str(count)
    return failure.metadata["committed_count"]


@pytest.mark.parametrize("snapshot", [True, False])
async def test_a_batch_that_comes_again_is_compared_over_restarts(
    running, tmp_path, refused, snapshot
):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        for batch in range(3):
            attempt = await stage(broker, [b"0", b"1"], batch=batch)
            await commit_call(broker, attempt, batch=batch, content_sum=batch)
        assert await differs(broker, refused, 0, 2, 9) == "2"
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("batchTransactions.json*"):
            path.unlink()
    async with running() as broker:
        for batch in range(3):
            again = await commit_call(broker, batch=batch, count=2, content_sum=batch)
            assert (again.duplicate, again.record_count) == (True, 2)
            assert await differs(broker, refused, batch, 2, batch + 1) == "2"
            assert await differs(broker, refused, batch, 3, batch) == "2"
            assert await differs(broker, refused, batch, 0, 0) == "2"
        assert sum(map(len, await visible(broker))) == 6


async def test_a_batch_that_is_not_remembered_is_refused(orders, refused):
    for batch in range(CONTENTS_KEPT + 2):
        # Nobody commits batches of nothing, but they are quick.
        await commit_call(orders, batch=batch, content_sum=batch)

    assert (await commit_call(orders, batch=2, content_sum=2)).duplicate
    assert await differs(orders, refused, 1, 1, 1) == ""
    assert (await commit_call(orders, batch=1)).duplicate  # It has nothing that could be lost.


async def test_an_aborted_batch_may_be_staged_again(orders, refused):
    attempt = await stage(orders, [b"0"])
    assert not (await abort_call(orders)).committed
    assert (await refused(commit_call(orders, attempt))).reason == "TRANSACTION_NOT_FOUND"
    await commit_call(orders, await stage(orders, [b"1"], token="b"))
    assert await visible(orders) == [[b"1"], []]


async def test_a_call_that_comes_again_is_staged_once(orders, refused):
    first, crc_one = stage_call(orders, [b"0", b"1"], record_count_before=0)
    assert (await first).record_count == 2
    second, crc_two = stage_call(orders, [b"2", b"3", b"4"], record_count_before=2)
    assert (await second).record_count == 5
    again, _ = stage_call(orders, [b"2", b"3", b"4"], record_count_before=2)
    assert (await again).record_count == 5
    wrong, _ = stage_call(orders, [b"x"], record_count_before=3)
    assert (await refused(wrong)).reason == "FIELD_INVALID"
    checksum = zlib.crc32(crc_one.to_bytes(4, "little") + crc_two.to_bytes(4, "little"))
    attempt = transaction_pb.BatchAttempt(attempt_token="a", record_count=5, checksum=checksum)
    assert (await commit_call(orders, attempt)).record_count == 5
    assert await visible(orders) == [[b"0", b"2", b"4"], [b"1", b"3"]]


async def test_rows_that_could_not_be_published_are_not_staged(orders, refused):
    cases = (
        ({"queue_ids": [0, 9]}, "QUEUE_NOT_FOUND"),
        ({"queue_ids": [0, -1]}, "FIELD_INVALID"),
        ({"queue_ids": [0]}, "BLOCK_CORRUPTED"),
        ({"records_crc32": 1}, "BLOCK_CORRUPTED"),
        ({"records": b"junk"}, "BLOCK_CORRUPTED"),
        ({"tag_codes": bytes([1, 0, 0, 0]) * 2}, "BLOCK_CORRUPTED"),
        ({"topic": "RMQ_SYS_ARIANE_BATCH_TOPIC"}, "TOPIC_RESERVED"),
        ({"token": ""}, "FIELD_INVALID"),
        ({"query_id": ""}, "FIELD_INVALID"),
        ({"batch_id": -1}, "FIELD_INVALID"),
        ({"partition_id": -1}, "FIELD_INVALID"),
    )
    for change, reason in cases:
        call, _ = stage_call(orders, [b"0", b"1"], **change)
        assert (await refused(call)).reason == reason, change
    assert (await refused(stage_call(orders, [])[0])).reason == "BLOCK_CORRUPTED"
    assert (await refused(commit_call(orders, query="x" * 300))).reason == "FIELD_INVALID"


async def test_a_record_that_is_too_large_is_named(orders, refused):
    failure = await refused(stage_call(orders, [b"0", bytes((4 << 20) + 1)])[0])
    assert (failure.reason, failure.metadata["position"]) == ("MESSAGE_TOO_LARGE", "1")
    failure = await refused(stage_call(orders, 2 * [bytes(9 << 18)])[0])
    assert failure.reason == "FIELD_INVALID"
    # Staged, a record lies in the body of another, which has room for it.
    await stage_call(orders, [bytes(4 << 20)])[0]


@pytest.mark.parametrize("snapshot", [True, False])
async def test_staged_and_committed_batches_survive_a_restart(running, tmp_path, snapshot):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        done = await stage(broker, [b"0", b"1"])
        await commit_call(broker, done)
        waiting = await stage(broker, [b"2", b"3"], batch=1, token="b")
        await stage(broker, [b"x"], batch=2, token="c")
        await abort_call(broker, batch=2)
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("batchTransactions.json*"):
            path.unlink()
    async with running() as broker:
        assert await progress(broker) == 0
        assert (await commit_call(broker, done)).duplicate
        assert (await commit_call(broker, waiting, batch=1)).record_count == 2
        assert await visible(broker) == [[b"0", b"2"], [b"1", b"3"]]


async def test_a_limit_that_was_lowered_does_not_hold_up_what_is_committed(
    running, tmp_path, monkeypatch, refused
):
    async def die(self, publication):
        raise StoreFull(tmp_path, "the process died here")

    due = now_ms() + 500
    bodies = [b"large" * 60_000, b"small", b"large, later" * 25_000, b"small, later"]
    with monkeypatch.context() as patch:
        patch.setattr(BatchPublication, "_publish", die)
        async with running(message_bytes_max=1 << 20) as broker:
            await broker.create_topic("orders", 2)
            attempt = await stage(broker, bodies, times_ms=[0, 0, due, due])
            assert (await refused(commit_call(broker, attempt))).reason == "STORE_FULL"
    async with running(message_bytes_max=1 << 16) as broker:
        assert (await commit_call(broker, attempt)).duplicate
        found = await come(broker, 4)
        assert [message.body for message in found] == sorted(bodies)


@pytest.mark.parametrize("is_made_anew", [False, True])
async def test_a_topic_that_is_gone_takes_its_part_along(orders, is_made_anew):
    attempt = await stage(orders, [b"0"])
    await orders.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    if is_made_anew:
        await orders.create_topic("orders")
    await commit_call(orders, attempt)
    assert await progress(orders) == 0
    if is_made_anew:
        assert await orders.bodies("orders") == []


async def test_a_hundred_thousand_records_are_committed_in_slices(orders):
    count, stages = 100_000, 20
    attempts = []
    for partition in range(stages):
        bodies = [b"%d" % number for number in range(partition, count, stages)]
        attempts.append(await stage(orders, bodies, token=f"t{partition}", partition=partition))
    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(take_turns())
    committed = await commit_call(orders, *attempts)
    others.cancel()
    assert committed.record_count == count
    # The broker shares this loop: between any two of its appends others had theirs.
    assert turns > 2 * stages
    counts = Counter(body for queue in await visible(orders) for body in queue)
    assert len(counts) == count
    assert set(counts.values()) == {1}


# With delivery times; ``test_batch_delays`` has the deaths.


def now_ms():
    return time.time_ns() // 1_000_000


async def come(broker, count):
    """The messages of both queues, once there are so many and time for more has passed."""
    async with asyncio.timeout(60):
        while sum(map(len, await visible(broker))) < count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    found = []
    for pulled in await broker.pull(("orders", 0, 0), ("orders", 1, 0)):
        columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
        found += map(columns.message, range(len(columns)))
    return sorted(found, key=lambda message: message.body)


async def test_delayed_rows_are_delivered_in_time_as_they_were_staged(orders):
    begin = now_ms()
    bodies = [b"%d" % number for number in range(6)]
    due = [0, begin + 400, 1, begin + 200, begin + 600, 0]
    attempt = await stage(orders, bodies, times_ms=due)
    committed = await commit_call(orders, attempt)
    assert (committed.duplicate, committed.record_count) == (False, 6)
    assert {b"0", b"2", b"5"} <= {body for queue in await visible(orders) for body in queue}
    assert (await commit_call(orders, attempt)).duplicate
    found = await come(orders, 6)
    assert [message.body for message in found] == bodies
    for number, message in enumerate(found):
        assert message.store_timestamp_ms >= due[number]
        assert message.tag == ("t" if number % 3 else "")
        assert message.keys == ((f"k{number}",) if number % 2 else ())
        assert message.queue_id == number % 2
        assert set(message.properties) <= {"TAGS", "KEYS", "UNIQ_KEY", "TIMER_DELIVER_MS"}
    assert (await commit_call(orders, attempt)).duplicate
    assert len(await come(orders, 6)) == 6


async def test_delayed_rows_of_an_aborted_batch_are_not_delivered(orders):
    await stage(orders, [b"0", b"1"], times_ms=[now_ms() + 100, 0])
    assert not (await abort_call(orders)).committed
    await commit_call(orders, await stage(orders, [b"2"], token="b", times_ms=[now_ms() + 300]))
    assert [message.body for message in await come(orders, 1)] == [b"2"]


async def test_times_that_cannot_be_are_refused_when_they_are_staged(running, refused):
    async with running(delay_days_max=2) as broker:
        await broker.create_topic("orders", 2)
        late = now_ms() + 3 * 86_400_000
        call, _ = stage_call(broker, [b"0", b"1", b"2"], times_ms=[0, 5, late])
        failure = await refused(call)
        assert failure.reason == "DELIVERY_TIME_TOO_LATE"
        assert failure.metadata["position"] == "2"
        assert failure.metadata["delivery_time_ms"] == str(late)
        for change, reason in (
            ({"times_ms": [5, -1]}, "FIELD_INVALID"),
            ({"times_ms": [5]}, "BLOCK_CORRUPTED"),
            ({"delivery_times_ms": b"123"}, "BLOCK_CORRUPTED"),
        ):
            failure = await refused(stage_call(broker, [b"0", b"1"], **change)[0])
            assert failure.reason == reason, change
        system = {"REAL_TOPIC": "elsewhere"}
        call, _ = stage_call(broker, [b"0", b"1"], times_ms=[0, 5], properties=system)
        failure = await refused(call)
        assert (failure.reason, failure.metadata["position"]) == ("MESSAGE_ILLEGAL", "1")
        assert await progress(broker) is None


@pytest.mark.parametrize(
    ("kind", "times_ms", "actual"),
    [("NORMAL", [0, 5], "DELAY"), ("FIFO", [5, 5], "DELAY"), ("DELAY", [5, 0], "NORMAL")],
)
async def test_a_topic_takes_what_it_is_for_of_batches_too(broker, refused, kind, times_ms, actual):
    message_type = getattr(message_pb, f"MESSAGE_TYPE_{kind}")
    await broker.create_topic("orders", 2, message_type=message_type)
    group = "g" if kind == "FIFO" else ""
    call, _ = stage_call(broker, [b"0", b"1"], times_ms=times_ms, message_group=group)
    failure = await refused(call)
    assert failure.reason == "MESSAGE_TYPE_MISMATCH"
    assert failure.metadata["actual"] == actual


async def test_delayed_rows_of_a_batch_survive_a_crash(running, crashed):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        due = now_ms() + 700
        attempt = await stage(broker, [b"0", b"1", b"2"], times_ms=[due, 0, due])
        await commit_call(broker, attempt)
        async with crashed() as survivor:
            assert (await commit_call(survivor, attempt)).duplicate
            found = await come(survivor, 3)
            assert [message.body for message in found] == [b"0", b"1", b"2"]
            assert found[0].store_timestamp_ms >= due
