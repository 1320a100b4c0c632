"""AppendRecords and PullRecords over the wire."""

import asyncio
import threading
import time

import numpy as np
from grpc import StatusCode, aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.message_pb2 import (
    ACKNOWLEDGED_LEVEL_FLUSHED,
    ACKNOWLEDGED_LEVEL_MEMORY,
)
from ariane_broker.app import compose
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import serving
from ariane_storage import Store


async def test_records_are_pulled_as_they_were_sent(broker):
    await broker.create_topic("orders", 2)
    bodies = [b"%d" % number * 10 for number in range(100)]
    result = await broker.store("orders", bodies, 1)
    assert (result.first_queue_offset, result.record_count) == (0, 100)
    assert result.acknowledged_level == ACKNOWLEDGED_LEVEL_MEMORY
    assert not result.duplicate
    assert await broker.bodies("orders", 1) == bodies


async def test_the_next_batch_goes_on_behind(broker):
    await broker.create_topic("orders")
    first = await broker.store("orders", [b"a", b"b"])
    second = await broker.store("orders", [b"c"])
    assert second.first_queue_offset == 2
    assert second.first_commit_log_offset > first.first_commit_log_offset
    assert second.store_time.ToMilliseconds() >= first.store_time.ToMilliseconds()
    assert await broker.bodies("orders", 0, 1) == [b"b", b"c"]


async def test_owned_fields_are_filled(broker):
    await broker.create_topic("orders", 3)
    await broker.store("orders", [b"a", b"b"], 2)
    (pulled,) = await broker.pull(("orders", 2, 0))
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    message = columns.message(1)
    assert (message.queue_id, message.queue_offset) == (2, 1)
    assert message.born_host[0] == "127.0.0.1"
    assert message.born_host[1] > 0
    assert message.store_host[0] == "127.0.0.1"
    assert (pulled.next_queue_offset, pulled.min_queue_offset, pulled.max_queue_offset) == (2, 0, 2)


async def test_batches_of_a_call_are_answered_in_order_and_one_by_one(broker, reason_of):
    await broker.create_topic("orders")
    await broker.create_topic("bills")
    results = await broker.append(
        broker.batch("orders", [b"a"]),
        broker.batch("orders", [b"lost"], 7),
        broker.batch("bills", [b"b"]),
        broker.batch("orders", [b"c"]),
    )
    assert reason_of(results[1].error) == "QUEUE_NOT_FOUND"
    assert [result.first_queue_offset for result in results if result.error is None] == [
        0,
        0,
        1,
    ]
    assert await broker.bodies("orders") == [b"a", b"c"]
    assert await broker.bodies("bills") == [b"b"]


async def test_a_send_creates_its_topic_with_four_queues(broker):
    await broker.store("fresh", [b"a"], 3)
    assert await broker.bodies("fresh", 3) == [b"a"]
    topic = (await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="fresh"))).topic
    assert (topic.read_queue_count, topic.write_queue_count) == (4, 4)


async def test_many_senders_create_one_topic_together(broker):
    results = await asyncio.gather(
        *(broker.store("fresh", [b"%d" % number], number % 4) for number in range(16))
    )
    assert len({result.first_commit_log_offset for result in results}) == 16


async def test_no_topic_is_created_where_that_is_off(running, reason_of):
    async with running(auto_create_topics=False) as broker:
        (result,) = await broker.append(broker.batch("fresh", [b"a"]))
        assert reason_of(result.error) == "TOPIC_NOT_FOUND"


async def test_a_synchronous_flush_is_in_the_answer(running):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        results = await asyncio.gather(
            *(broker.store("orders", [b"%d" % number]) for number in range(32))
        )
        levels = {result.acknowledged_level for result in results}
        assert levels == {ACKNOWLEDGED_LEVEL_FLUSHED}
        assert len(await broker.bodies("orders")) == 32
        state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
        assert state.store.flushed_commit_log_offset == state.store.max_commit_log_offset


async def test_a_message_of_the_largest_size_comes_back_whole(running, reason_of):
    async with running(message_bytes_max=100_000) as broker:
        await broker.create_topic("orders")
        body = bytes(range(250)) * 400
        assert len(body) == 100_000
        await broker.store("orders", [body])
        await broker.store("orders", [body[:-1]])
        (result,) = await broker.append(broker.batch("orders", [b"small", body + b"x"]))
        assert reason_of(result.error) == "MESSAGE_TOO_LARGE"
        assert await broker.bodies("orders") == [body, body[:-1]]


async def test_an_empty_body_is_a_message(broker):
    await broker.store("orders", [b"", b"a", b""])
    assert await broker.bodies("orders") == [b"", b"a", b""]


async def test_statistics_count_what_went_through(broker):
    await broker.store("orders", [b"a", b"b", b"c"])
    await broker.bodies("orders")
    statistics = (await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())).statistics
    assert statistics.stored_message_count == 3
    assert statistics.stored_batch_count == 1
    assert statistics.pulled_message_count == 3
    assert statistics.pulled_bytes == statistics.stored_bytes > 0


async def test_a_request_without_batches_is_refused(broker, refused):
    failure = await refused(broker.sends.AppendRecords(send_pb.AppendRecordsRequest()))
    assert failure.reason == "FIELD_INVALID"


async def test_small_batches_of_a_call_share_a_synchronous_flush(running, reason_of):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders", 4)
        await broker.store("orders", [b"first"])
        batches = [
            broker.batch(
                "orders", [b"%d" % number] * 3, number % 4, sequence=(7, 0, number // 4 * 3)
            )
            for number in range(20)
        ]
        gap = broker.batch("orders", [b"x"], 0, sequence=(7, 0, 99))
        first = list(await broker.append(*batches))
        again = list(await broker.append(*batches[:4], gap, *batches[4:]))
        assert reason_of(again.pop(4).error) == "SEQUENCE_GAP"
        for results, duplicate in ((first, False), (again, True)):
            levels = {result.acknowledged_level for result in results}
            assert levels == {ACKNOWLEDGED_LEVEL_FLUSHED}
            assert {result.duplicate for result in results} == {duplicate}
        assert [result.first_commit_log_offset for result in again] == [
            result.first_commit_log_offset for result in first
        ]
        for queue_id in range(1, 4):
            expected = [b"%d" % number for number in range(queue_id, 20, 4) for _ in range(3)]
            assert await broker.bodies("orders", queue_id) == expected


async def test_a_call_fails_by_itself_beside_others(broker, refused):
    await broker.create_topic("orders")
    failed, result = await asyncio.gather(
        refused(broker.append(broker.batch("orders", [b"a"], -1))), broker.store("orders", [b"b"])
    )
    assert failed.reason == "FIELD_INVALID"
    assert result.first_queue_offset == 0
    assert await broker.bodies("orders") == [b"b"]


async def test_a_broker_that_drains_refuses_calls_and_takes_them_again(broker, refused):
    await broker.store("orders", [b"a"])
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=True))
    assert (await refused(broker.store("orders", [b"b"]))).reason == "SERVICE_DRAINING"
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=False))
    assert (await broker.store("orders", [b"c"])).first_queue_offset == 1


async def test_a_broker_that_stops_answers_calls_in_work_and_stores_no_others(
    settings_for, probe_class, monkeypatch
):
    """What it refuses with SERVICE_DRAINING is not stored, and what it has stored is answered."""
    flushing, flush = threading.Event(), Store.flush

    def slow(self):
        flushing.set()
        time.sleep(0.2)
        return flush(self)

    outcomes = []
    async with serving(settings_for(flush_mode="sync", grace_s=10), compose) as address:
        channel = aio.insecure_channel(str(address))
        broker = probe_class(channel, address)
        await broker.create_topic("orders")
        monkeypatch.setattr(Store, "flush", slow)

        async def send_all():
            for number in range(10_000):
                body = b"%d" % number
                try:
                    await broker.store("orders", [body])
                except aio.AioRpcError as error:
                    outcomes.append(error)
                    return
                outcomes.append(body)

        sending = asyncio.create_task(send_all())
        await asyncio.to_thread(flushing.wait)
    await sending
    await channel.close()
    *stored, failure = outcomes
    assert stored, failure
    assert failure.code() is StatusCode.UNAVAILABLE
    async with serving(settings_for(), compose) as address:
        channel = aio.insecure_channel(str(address))
        assert await probe_class(channel, address).bodies("orders") == stored
        await channel.close()


async def test_an_undecodable_request_is_refused(broker, refused):
    raw = broker.channel.unary_unary("/ariane.broker.v1.SendService/AppendRecords")
    assert (await refused(raw(b"\x0a\xff"))).reason == "FIELD_INVALID"
