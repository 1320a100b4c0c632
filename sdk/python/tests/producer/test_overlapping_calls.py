"""Many small sends: client and broker work at the same time, and order is kept all the same."""

import asyncio
from dataclasses import replace

import pytest

from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_FLUSHED
from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings

ROUNDS = 2
PATIENT = ProducerSettings(call_timeout_s=30, send_timeout_s=60, spread_count=0)


async def two_rounds(send, broker, messages, **options):
    """Send messages, and each again when it is acknowledged; only the first call is answered.

    Returns:
        The tasks, and what lets the broker answer the others.
    """
    goes_on = asyncio.Event()
    broker.script.extend(["store", *[goes_on] * 8])

    async def send_twice(message):
        for _ in range(ROUNDS):
            await send(message, **options)

    tasks = [asyncio.create_task(send_twice(message)) for message in messages]
    return tasks, goes_on


def count_of(call):
    return sum(len(batch.record_sizes) // 4 for batch in call.rows)


async def two_calls_take_all(broker):
    """See the second round leave in one call, and nothing beside it for a while."""
    await broker.wait_called(2)
    await asyncio.sleep(0.05)
    assert [count_of(call) for call in broker.calls] == [64, 64]


def numbered(count, topic="orders"):
    return [Message(topic, b"%d" % number) for number in range(count)]


async def test_senders_that_waited_for_one_answer_share_two_calls(world):
    broker = world.brokers["broker-a"]
    settings = replace(PATIENT, spread_count=32)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        tasks, goes_on = await two_rounds(producer.send, broker, numbered(64))
        await broker.wait_called(3)
        counts = [count_of(call) for call in broker.calls]
        goes_on.set()
        await asyncio.gather(*tasks)

    assert counts == [64, 32, 32]
    assert len({batch.queue_id for call in broker.calls[1:] for batch in call.rows}) == 2
    assert sorted(broker.bodies) == sorted([b"%d" % number for number in range(64)] * ROUNDS)


@pytest.mark.parametrize(("count", "leaves"), [(49, False), (50, True)])
async def test_a_second_call_leaves_when_half_as_many_wait_as_travel(world, count, leaves):
    broker = world.brokers["broker-a"]
    goes_on = asyncio.Event()
    broker.script.extend([goes_on] * 2)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.route("orders")
        tasks = [asyncio.create_task(producer.send(each)) for each in numbered(100)]
        await broker.wait_called(1)
        tasks += [asyncio.create_task(producer.send(each)) for each in numbered(count)]
        if leaves:
            await broker.wait_called(2)
        else:
            await asyncio.sleep(0.05)
            assert len(broker.calls) == 1
        goes_on.set()
        await asyncio.gather(*tasks)

    assert [count_of(call) for call in broker.calls] == [100, count]


async def test_few_wait_for_the_answer_before_them(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.route("orders")
        tasks, goes_on = await two_rounds(producer.send, broker, numbered(20))
        await broker.wait_called(2)
        assert [count_of(call) for call in broker.calls] == [20, 20]
        goes_on.set()
        await asyncio.gather(*tasks)


async def test_messages_for_one_queue_travel_one_call_after_the_other(world):
    broker = world.brokers["broker-a"]
    queue = MessageQueue("orders", "broker-a", 1)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.route("orders")
        messages = numbered(64)
        tasks, goes_on = await two_rounds(producer.send, broker, messages, message_queue=queue)
        await two_calls_take_all(broker)
        goes_on.set()
        await asyncio.gather(*tasks)

    assert [each.body for each in broker.queues["orders", 1]] == [
        message.body for message in messages
    ] * ROUNDS


async def test_a_topic_with_one_queue_has_one_call_in_flight(world):
    broker = world.brokers["broker-a"]
    world.name_server.set_route("narrow", {"broker-a": broker.address}, queue_count=1)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.route("narrow")
        tasks, goes_on = await two_rounds(producer.send, broker, numbered(64, "narrow"))
        await two_calls_take_all(broker)
        goes_on.set()
        await asyncio.gather(*tasks)


async def test_tiny_batches_of_many_topics_stay_together(world):
    broker = world.brokers["broker-a"]
    topics = [f"topic-{number}" for number in range(16)]
    for topic in topics:
        world.name_server.set_route(topic, {"broker-a": broker.address})
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await asyncio.gather(*map(producer.route, topics))
        messages = [Message(topic, b"%d" % number) for number in range(4) for topic in topics]
        tasks, goes_on = await two_rounds(producer.send, broker, messages)
        await two_calls_take_all(broker)
        goes_on.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(("topic_count", "counts"), [(48, [48, 24, 24]), (46, [46, 46])])
async def test_rows_of_one_message_are_sent_in_two_calls_if_they_are_many(
    world, topic_count, counts
):
    broker = world.brokers["broker-a"]
    names = [f"topic-{number}" for number in range(topic_count)]
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        for name in names:
            world.name_server.set_route(name, {"broker-a": broker.address})
            await producer.route(name)
        tasks, goes_on = await two_rounds(
            producer.send, broker, [Message(name, b"x") for name in names]
        )
        await broker.wait_called(len(counts))
        assert [count_of(call) for call in broker.calls] == counts
        goes_on.set()
        await asyncio.gather(*tasks)


async def test_half_messages_are_sent_in_two_calls(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, group="tills", settings=PATIENT) as producer:
        await producer.route("orders")
        tasks, goes_on = await two_rounds(producer.send_half, broker, numbered(64))
        await broker.wait_called(3)
        assert [count_of(call) for call in broker.calls] == [64, 32, 32]
        goes_on.set()
        await asyncio.gather(*tasks)


async def test_calls_do_not_overlap_where_settings_allow_one(world):
    broker = world.brokers["broker-a"]
    settings = replace(PATIENT, large_calls_in_flight_max=1)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        tasks, goes_on = await two_rounds(producer.send, broker, numbered(64))
        await two_calls_take_all(broker)
        goes_on.set()
        await asyncio.gather(*tasks)


async def test_calls_do_not_overlap_where_each_answer_waits_for_the_disk(world):
    broker = world.brokers["broker-a"]
    broker.acknowledged_level = ACKNOWLEDGED_LEVEL_FLUSHED
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.route("orders")
        tasks, goes_on = await two_rounds(producer.send, broker, numbered(64))
        await two_calls_take_all(broker)
        goes_on.set()
        await asyncio.gather(*tasks)
