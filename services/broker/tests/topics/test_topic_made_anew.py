"""A topic that is deleted and made anew is another one: no position of the old one counts in it."""

import asyncio
import time

import numpy as np
import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from services.broker.tests.receive.receive_calls import Receiver


async def epoch_of(broker, topic):
    (pulled,) = await broker.pull((topic, 0, 0))
    return pulled.log_epoch


async def pull_at(broker, topic, queue_offset, log_epoch):
    position = pull_pb.PullPosition(topic=topic, queue_offset=queue_offset, log_epoch=log_epoch)
    request = pull_pb.PullRecordsRequest(consumer_group="group", positions=[position])
    (pulled,) = (await broker.pulls.PullRecords(request)).queues
    return pulled


async def delete(broker, topic):
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=topic))


async def make_anew(broker, topic="orders"):
    """Delete it and make it again, longer than before."""
    await delete(broker, topic)
    await broker.create_topic(topic)
    await broker.store(topic, [b"%d" % n for n in range(9)])


@pytest.fixture
async def orders(broker):
    for topic in ("orders", "bills"):
        await broker.create_topic(topic)
        await broker.store(topic, [b"old"] * 5)
    return broker


async def test_positions_of_the_old_topic_are_refused_and_all_others_stand(
    orders, reason_of, read_bodies
):
    epoch = await epoch_of(orders, "orders")
    await make_anew(orders)

    refused = await pull_at(orders, "orders", 5, epoch)
    assert reason_of(refused.error) == "QUEUE_CUT"
    assert "ends at 0" in refused.error.message
    anew = await pull_at(orders, "orders", 0, refused.log_epoch)
    assert read_bodies(anew) == [b"%d" % n for n in range(9)]
    assert not (await pull_at(orders, "orders", 9, anew.log_epoch)).HasField("error")
    await orders.store("bills", [b"new"])
    assert read_bodies(await pull_at(orders, "bills", 5, epoch)) == [b"new"]


async def test_neither_offsets_nor_ranges_of_the_old_topic_count(orders, reason_of, refused):
    epoch = await epoch_of(orders, "orders")
    await make_anew(orders)

    wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=5, log_epoch=epoch)
    request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
    (entry,) = (await orders.offsets.StoreConsumerOffsets(request)).refused
    assert reason_of(entry.error) == "QUEUE_CUT"

    async def read():
        request = pull_pb.PullRangeRequest(
            topic="orders", begin_queue_offset=3, end_queue_offset=5, log_epoch=epoch
        )
        return [chunk async for chunk in orders.pulls.PullRange(request)]

    assert (await refused(read())).reason == "QUEUE_CUT"


async def test_no_message_of_the_old_topic_is_found_by_id_or_key_in_the_new_one(orders, refused):
    ids = {}
    for topic in ("orders", "bills"):
        await orders.store(topic, [b"old"], keys=("k",))
        (found,) = await found_by_key(orders, topic)
        ids[topic] = query_pb.GetMessageRequest(message_id=found.position.message_id)
    await make_anew(orders)
    assert await found_by_key(orders, "orders") == []
    assert (await refused(orders.queries.GetMessage(ids["orders"]))).reason == "MESSAGE_NOT_FOUND"
    assert (await orders.queries.GetMessage(ids["bills"])).message.body == b"old"


async def found_by_key(broker, topic):
    request = query_pb.QueryMessagesRequest(topic=topic, key="k")
    return list((await broker.queries.QueryMessages(request)).messages)


@pytest.mark.parametrize("dies", [False, True])
async def test_it_is_known_after_a_restart(running, crashed, reason_of, dies):
    async with running() as broker:
        for topic in ("orders", "bills"):
            await broker.create_topic(topic)
            await broker.store(topic, [b"old"] * 5)
        epoch = await epoch_of(broker, "orders")
        await make_anew(broker)
        if dies:
            async with crashed() as survivor:
                await old_positions_are_refused(survivor, epoch, reason_of)
    if not dies:
        async with running() as broker:
            await old_positions_are_refused(broker, epoch, reason_of)


async def old_positions_are_refused(broker, epoch, reason_of):
    assert reason_of((await pull_at(broker, "orders", 1, epoch)).error) == "QUEUE_CUT"
    assert not (await pull_at(broker, "bills", 5, epoch)).HasField("error")


async def test_another_program_made_it_anew_while_the_broker_was_away(running, tmp_path, reason_of):
    async with running() as broker:
        for topic in ("orders", "bills"):
            await broker.create_topic(topic)
            await broker.store(topic, [b"old"] * 5)
        epoch = await epoch_of(broker, "orders")
    config = tmp_path / "store" / "config"
    kept = {path: path.read_bytes() for path in config.glob("logEpochs.json*")}
    async with running() as other:
        await make_anew(other)
    for path in config.glob("logEpochs.json*"):
        path.unlink()
    for path, content in kept.items():  # The other one knows of no epochs.
        path.write_bytes(content)

    async with running() as broker:
        await old_positions_are_refused(broker, epoch, reason_of)


async def test_a_kill_after_a_deletion_cuts_no_queue_of_other_topics(running, crashed, read_bodies):
    async with running() as broker:
        for topic in ("orders", "bills", "late"):
            await broker.create_topic(topic)
            await broker.store(topic, [b"old"] * 5)
        await delete(broker, "orders")
        told = await epoch_of(broker, "bills")
        await broker.store("bills", [b"new"])
        await delete(broker, "late")
        last = await epoch_of(broker, "bills")
        assert told != last
        async with crashed() as survivor:
            for epoch in (told, last):
                assert read_bodies(await pull_at(survivor, "bills", 5, epoch)) == [b"new"]
                assert not (await pull_at(survivor, "bills", 6, epoch)).HasField("error")


async def wait_for(broker, count):
    """Wait until so many messages are in the topic, and others had the time to be."""
    async with asyncio.timeout(60):
        while len(await broker.bodies("orders")) < count:  # noqa: ASYNC110 - a broker.
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    return sorted(await broker.bodies("orders"))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("has_messages", [False, True])
async def test_what_waited_for_the_old_topic_does_not_come_to_the_new_one(
    running, clock, tmp_path, restarts, has_messages
):
    def due():
        return np.array([time.time_ns() // 1_000_000 + 3_600_000], "<i8").tobytes()

    async with running() as broker:
        await broker.create_topic("orders")
        if has_messages:
            await broker.store("orders", [b"old"])
        await broker.store("orders", [b"old, of a level"], delay_level=3)
        await broker.store("orders", [b"old, of a time"], delivery_times_ms=due())
        await broker.store_half("t-old", b"old, of a transaction")
        await delete(broker, "orders")
        await broker.create_topic("orders")
        await broker.store("orders", [b"level"], delay_level=3)
        await broker.store("orders", [b"time"], delivery_times_ms=due())
        await broker.store_half("t-new", b"transaction")
        await broker.end_transaction("t-new", client_pb.TRANSACTION_OUTCOME_COMMIT)
        with pytest.raises(Exception, match="decided before: ROLLBACK"):
            await broker.end_transaction("t-old", client_pb.TRANSACTION_OUTCOME_COMMIT)
        if not restarts:
            clock.advance(3600)
            assert await wait_for(broker, 3) == [b"level", b"time", b"transaction"]
            return
    for path in (tmp_path / "store" / "config").glob("*.json*"):
        if path.name.split(".")[0] in {"delayOffset", "timerProgress", "transactions"}:
            path.unlink()
    clock.advance(3600)
    async with running() as broker:
        assert await wait_for(broker, 3) == [b"level", b"time", b"transaction"]
        with pytest.raises(Exception, match="decided before: ROLLBACK"):
            await broker.end_transaction("t-old", client_pb.TRANSACTION_OUTCOME_COMMIT)


@pytest.mark.parametrize("snapshot", ["lost", "older"])
async def test_what_was_received_of_the_old_topic_is_not_received_of_the_new_one(
    running, tmp_path, snapshot
):
    config = tmp_path / "store" / "config"
    async with running() as broker:
        await broker.create_topic("orders", 1)
        await broker.store("orders", [b"old"] * 5)
        receiver = Receiver(broker)
        assert await receiver.ack(*await receiver.receive(message_count_max=5)) == [True] * 5
    older = {path: path.read_bytes() for path in config.glob("receiving.json*")}
    async with running() as broker:
        await delete(broker, "orders")
        await broker.create_topic("orders", 1)
        await broker.store("orders", [b"new"] * 3)
    for path in config.glob("receiving.json*"):
        path.unlink()
    if snapshot == "older":  # As on a replica that has not got the next one yet.
        for path, content in older.items():
            path.write_bytes(content)
    async with running() as broker:
        receiver, received = Receiver(broker), []
        async with asyncio.timeout(60):
            while len(received) < 3:
                received += await receiver.receive(message_count_max=5, hold_s=10)
        assert [each.message.body for each in received] == [b"new"] * 3
