"""A body that cannot be read stops no consumer and no reader of columns."""

import asyncio
import itertools
import logging
import zlib

from grpc import aio

from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane_record.decoding import columns
from ariane_record.layout import SystemFlag
from ariane_record.names import dead_letter_topic
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import MessageQueue, PullConsumer, QueueReader, errors
from ariane_sdk.consumer.delivery.message_returns import MessageReturns
from ariane_sdk.consumer.pulling import pull_loop
from ariane_sdk.errors import RouteNotFound
from ariane_testkit.append_rows import row_of, rows_request

COMPRESSED = int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB)
BODIES = [b"0", b"1", b"2", b"3", b"4", b"5"]
_numbers = itertools.count()


async def store(cluster, bodies, damaged=()):
    """Send compressed bodies; the damaged ones are not what their flag says. Gives the queue."""
    topic = f"damaged-columns-{next(_numbers)}"
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
    for row, body in enumerate(bodies):
        kept = body if row in damaged else zlib.compress(body)
        encoder.add(kept, tag=f"t{row}", system_flag=COMPRESSED, born_timestamp_ms=1)
    row = row_of(encoder.finish())
    async with aio.insecure_channel(cluster.brokers[0].address) as channel:
        answer = await SendServiceStub(channel).AppendRecords(rows_request([row]))
        assert not answer.table_result.rows
    return MessageQueue(topic, "broker-a", 0)


def consumer_of(cluster, topic, **options):
    return PullConsumer(
        cluster.name_servers,
        group=f"group-of-{topic}",
        start="earliest",
        column_names=["body", "queueOffset"],
        **{"subscriptions": {topic: "*"}} | options,
    )


async def bodies_of(consumer, count):
    found = []
    async with asyncio.timeout(60):
        async for batch in consumer.columns():
            found += batch["body"].to_pylist()
            if len(found) >= count:
                break
    return found


async def dead_letters(cluster, topic):
    """The queue offsets of the dead letters of a group, once there are any."""
    letters = dead_letter_topic(f"group-of-{topic}")
    async with asyncio.timeout(60), QueueReader(cluster.name_servers) as reader:
        while True:
            try:
                bounds = await reader.bounds(letters)
            except RouteNotFound:
                bounds = {}
            found = [
                message
                for queue, (begin, end) in bounds.items()
                async for read in reader.read_range(queue, begin, end)
                for message in read.iter_messages()
            ]
            if found:
                return found
            await asyncio.sleep(0.02)


async def test_a_group_goes_on_behind_damaged_bodies_which_become_dead_letters(cluster, caplog):
    queue = await store(cluster, BODIES, damaged=(0, 3, 4))
    with caplog.at_level(logging.WARNING):
        async with consumer_of(cluster, queue.topic) as consumer:
            assert await bodies_of(consumer, 3) == [b"1", b"2", b"5"]
    async with QueueReader(cluster.name_servers) as reader:
        stored = await reader.stored_offsets(consumer.group, queue.topic)
    assert stored[queue] == len(BODIES)
    letters = await dead_letters(cluster, queue.topic)
    assert sorted(letter.stored_body for letter in letters) == [b"0", b"3", b"4"]
    [told] = [each.getMessage() for each in caplog.records if "cannot be read" in each.message]
    assert f"3 messages of {queue}" in told
    assert "dead letters: at 0, 3, 4: " in told


async def test_only_damaged_bodies_are_given_up_that_the_group_wants(cluster):
    queue = await store(cluster, BODIES, damaged=(0, 3))
    wanted = {"subscriptions": {queue.topic: "t3 || t5"}}
    async with consumer_of(cluster, queue.topic, **wanted) as consumer:
        assert await bodies_of(consumer, 1) == [b"5"]
    letters = await dead_letters(cluster, queue.topic)
    assert [letter.stored_body for letter in letters] == [b"3"]


async def test_an_assigned_queue_goes_on_and_says_what_was_passed_over(cluster, caplog):
    queue = await store(cluster, BODIES, damaged=(2,))
    async with consumer_of(cluster, queue.topic, subscriptions=None) as consumer:
        await consumer.assign([queue])
        assert len(await bodies_of(consumer, 5)) == 5
    assert "passed over: at 2: " in caplog.text


async def test_a_message_that_is_not_taken_as_a_dead_letter_is_not_passed_over(
    cluster, monkeypatch
):
    monkeypatch.setattr(pull_loop, "RECONNECT_DELAY_S_MAX", 0.05)
    tries = []
    send_back = MessageReturns.send_back

    async def fail_first(self, failed, queue, **options):
        tries.append(options["return_id"])
        if len(tries) == 1:
            return failed.messages
        return await send_back(self, failed, queue, **options)

    monkeypatch.setattr(MessageReturns, "send_back", fail_first)
    queue = await store(cluster, BODIES, damaged=(0,))
    async with consumer_of(cluster, queue.topic) as consumer:
        assert await bodies_of(consumer, 5) == BODIES[1:]
    assert len(tries) == 2
    assert tries[0] == tries[1] != ""


async def test_a_reader_gets_what_lies_before_and_goes_on_behind(cluster):
    queue = await store(cluster, BODIES, damaged=(0, 3))
    found, told, begin = [], [], 0
    async with QueueReader(cluster.name_servers) as reader:
        while begin < len(BODIES):
            try:
                async for batch in reader.pull_columns(
                    queue, begin, len(BODIES), column_names=["body"]
                ):
                    found += batch["body"].to_pylist()
                break
            except errors.BodyDamaged as error:
                told.append(str(error))
                begin = int(error.metadata["queue_offset"]) + 1
    assert found == [b"1", b"2", b"4", b"5"]
    assert [text.split(":")[0] for text in told] == [f"{queue} at 0", f"{queue} at 3"]


async def test_bodies_that_grow_too_large_together_come_in_several_batches(cluster, monkeypatch):
    monkeypatch.setattr(columns, "DECOMPRESSED_TOTAL_BYTES_MAX", 25_000)
    bodies = [bytes([row]) * 10_000 for row in range(7)]
    queue = await store(cluster, bodies)
    async with consumer_of(cluster, queue.topic) as consumer:
        assert await bodies_of(consumer, 7) == bodies
    async with QueueReader(cluster.name_servers) as reader:
        batches = [batch async for batch in reader.pull_columns(queue, 0, 7)]
    assert [body for batch in batches for body in batch["body"].to_pylist()] == bodies
    assert len(batches) > 1
