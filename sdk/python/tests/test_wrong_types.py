"""What is no message, no name and no number is refused by name, and harms nothing else."""

import asyncio
from datetime import datetime

import pytest

from ariane_sdk import (
    Averaging,
    Breaker,
    ClusterClient,
    MachineRoom,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    errors,
)

WRONG = {
    "body": [None, "text", 5, [1]],
    "topic": [None, 5],
    "tag": [None, 5],
    "keys": [None, 5, (1, 2), "text"],
    "message_group": [5],
    "properties": [{"a": 1}, [1], {1: "a"}],
    "flag": ["x", None, 1 << 31, 1.5],
    "priority": ["x", None, 1 << 31, 1.5],
    "deliver_at": ["soon", 5],
    "delay": ["soon", 5],
    "delay_level": ["soon", None],
}


def _messages():
    for name, values in WRONG.items():
        for value in values:
            yield name, Message(**({"topic": "orders", "body": b"x"} | {name: value}))
    yield "Message", None
    yield "Message", b"x"


async def test_a_message_of_wrong_types_is_refused_by_name(world):
    good = Message("orders", b"good")
    async with Producer(world.name_servers) as producer, asyncio.timeout(60):
        await producer.send(good)
        for name, message in _messages():
            with pytest.raises(errors.IllegalArgument, match=name):
                await producer.send(message)
            with pytest.raises(errors.IllegalArgument, match=name):
                producer.send_nowait(message)
            with pytest.raises(errors.IllegalArgument, match=name):
                await producer.send_one_way(message)
            with pytest.raises(errors.ArianeError, match=name):
                await producer.send_batch([good, message])
            await producer.send(good)

    assert set(world.brokers["broker-a"].bodies) == {b"good"}


@pytest.mark.parametrize(
    "fields", [{"message_group": "\ud800"}, {"properties": {"KEYS": "a"}}, {"tag": "a||b"}]
)
async def test_a_batch_of_nothing_but_illegal_messages_ends(world, fields):
    async with Producer(world.name_servers) as producer, asyncio.timeout(60):
        await producer.send(Message("orders", b"good"))
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch([Message("orders", b"x", **fields)])

    assert isinstance(caught.value.outcomes[0], errors.MessageIllegal)


OPTIONS = {"group": "g", "subscriptions": {"orders": "*"}, "listener": print}


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": None},
        {"group": 5},
        {"subscriptions": ["t"]},
        {"subscriptions": "t"},
        {"subscriptions": {"t": 5}},
        {"listener": None},
        {"listener": "print"},
        {"batch_size": "x"},
        {"batch_size": None},
        {"batch_size": 1.5},
        {"strategy": "averaging"},
        {"strategy": Averaging},
        {"start": 5},
        {"start": datetime},
        {"model": ["clustering"]},
        {"settings": PullSettings()},
    ],
)
def test_a_consumer_of_wrong_types_is_refused(wrong):
    with pytest.raises(errors.IllegalArgument, match=next(iter(wrong)).rstrip("s")):
        PushConsumer("127.0.0.1:1", **(OPTIONS | wrong))


@pytest.mark.parametrize("rooms", ["north", [], [1]])
def test_rooms_of_wrong_types_are_refused(rooms):
    with pytest.raises(errors.IllegalArgument, match="a list such as"):
        MachineRoom(rooms)


@pytest.mark.parametrize("addresses", [None, 5, [5], b"127.0.0.1:1", "h:70000", "dns:h", "file:"])
@pytest.mark.parametrize("client", [Producer, PullConsumer])
def test_addresses_of_wrong_types_are_refused(client, addresses):
    arguments = {} if client is Producer else {"group": "g"}
    with pytest.raises(errors.IllegalArgument, match="name server"):
        client(addresses, **arguments)


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        (ProducerSettings, "call_timeout_s", -1),
        (ProducerSettings, "call_timeout_s", None),
        (ProducerSettings, "send_timeout_s", float("nan")),
        (ProducerSettings, "calls_in_flight_max", 0),
        (ProducerSettings, "batch_bytes_max", 1.5),
        (ProducerSettings, "queue_choice", "fastest"),
        (ProducerSettings, "compression", "lz4"),
        (PushSettings, "listener_threads", 0),
        (PullSettings, "queue_message_count_max", 0),
        (PullSettings, "pull_bytes_max", True),
        (PushSettings, "offset_store_interval_s", 0.0),
        (PullSettings, "hold_s", "x"),
        (PullSettings, "hold_s", 31),
        (PushSettings, "zone", 5),
        (PushSettings, "member_name", None),
        (PushSettings, "store_each_batch", "yes"),
        (PushSettings, "on_lost", "flush"),
        (PullSettings, "on_gained", 5),
        (PushSettings, "breaker", 0.5),
        (Breaker, "hold_s", 0),
        (Breaker, "calls", 2.5),
    ],
)
def test_settings_that_nobody_can_live_with_are_refused(kind, name, wrong):
    with pytest.raises(errors.IllegalArgument, match=name):
        kind(**{name: wrong})


async def test_a_selector_that_fails_before_the_route_is_known_fails_its_message_only(world):
    def fail(_queues, _message):
        raise ZeroDivisionError

    async with Producer(world.name_servers) as producer, asyncio.timeout(60):
        wrong = producer.send_nowait(Message("orders", b"wrong"), selector=fail)
        await producer.send_one_way(Message("orders", b"unheard"), selector=fail)
        right = producer.send_nowait(Message("orders", b"right"))
        with pytest.raises(ZeroDivisionError):
            await wrong
        await right

    assert world.brokers["broker-a"].bodies == [b"right"]


@pytest.mark.parametrize("wrong", [None, 5, "body", [b"x"]])
async def test_a_value_that_is_no_table_is_refused(world, wrong):
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.IllegalArgument, match="is no table"):
            await producer.send_columns("orders", wrong)
        with pytest.raises(errors.IllegalArgument, match="columns"):
            await producer.send_columns("orders", {"body": [b"x"]}, columns=["body"])


@pytest.mark.parametrize("wrong", ["1", float("nan"), [1]])
async def test_an_invalid_time_to_wait_is_refused(world, wrong):
    message = Message("orders", b"x")
    async with Producer(world.name_servers) as producer:
        for call in (
            producer.send(message, timeout_s=wrong),
            producer.request(message, timeout_s=wrong),
            producer.send_columns("orders", {"body": [b"x"]}, timeout_s=wrong),
        ):
            with pytest.raises(errors.IllegalArgument, match="timeout_s"):
                await call

    assert world.brokers["broker-a"].bodies == []


QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("messages", lambda producer: producer.send_batch(None)),
        ("messages", lambda producer: producer.send_batch(Message("orders", b"x"))),
        ("messages", lambda producer: producer.send_batch("ab")),
    ],
)
async def test_a_value_that_is_no_batch_is_refused(world, name, call):
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.IllegalArgument, match=name):
            await call(producer)
    assert world.brokers["broker-a"].bodies == []


async def test_what_a_consumer_cannot_do_is_refused_by_name(ariane_name_servers, ariane_topic):
    queue = MessageQueue(ariane_topic, "broker-a", 0)
    calls = [
        ("queues", lambda consumer: consumer.assign(None)),
        ("queues", lambda consumer: consumer.assign("orders")),
        ("queues", lambda consumer: consumer.assign(queue)),
        ("queue", lambda consumer: consumer.assign(["orders"])),
        ("queue", lambda consumer: consumer.assign([queue._replace(queue_id="0")])),
        ("count_max", lambda consumer: consumer.poll("x")),
        ("count_max", lambda consumer: consumer.poll(0)),
        ("count_max", lambda consumer: consumer.poll(1.5)),
        ("timeout_s", lambda consumer: consumer.poll(timeout_s="soon")),
        ("offsets", lambda consumer: consumer.commit([queue])),
        ("queue", lambda consumer: consumer.commit({"orders": 1})),
        ("queue offset", lambda consumer: consumer.commit({queue: "1"})),
        ("queue offset", lambda consumer: consumer.commit({queue: 1 << 63})),
        ("queue offset", lambda consumer: consumer.seek(queue, -1)),
        ("queue", lambda consumer: consumer.seek(None, 0)),
        ("queue", lambda consumer: consumer.committed(None)),
    ]
    async with PullConsumer(ariane_name_servers, group="g") as consumer:
        await consumer.assign([queue])
        for name, call in calls:
            with pytest.raises(errors.IllegalArgument, match=name):
                await call(consumer)
            assert consumer.assignment == {queue}
        for method in (consumer.position, consumer.pause, consumer.resume):
            with pytest.raises(errors.IllegalArgument, match="queue"):
                method(5)


async def _drain(chunks):
    return [chunk async for chunk in chunks]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue", (None, 0, 1)),
        ("queue", (("orders", "broker-a", 0), 0, 1)),
        ("queue offset", (QUEUE, "0", 1)),
        ("queue offset", (QUEUE, 0, None)),
        ("queue offset", (QUEUE, -1, 1)),
        ("queue offset", (QUEUE, 0, 1 << 63)),
    ],
)
async def test_an_invalid_range_is_refused(world, name, arguments):
    async with QueueReader(world.name_servers) as reader, asyncio.timeout(60):
        for read in (reader.read_range, reader.pull_columns):
            with pytest.raises(errors.IllegalArgument, match=name):
                await _drain(read(*arguments))
        with pytest.raises(errors.IllegalArgument, match="queue"):
            await reader.store_offsets("g", {"orders": 1})


@pytest.mark.parametrize("wrong", [{QUEUE: 1 << 63}, {QUEUE: -1}, {QUEUE: "1"}, {"orders": 1}])
async def test_a_value_that_is_no_table_of_offsets_is_refused(world, wrong):
    async with (
        Producer(world.name_servers) as producer,
        ClusterClient(world.name_servers) as cluster,
        asyncio.timeout(60),
    ):
        await producer.send(Message("orders", b"x"))
        with pytest.raises(errors.IllegalArgument, match="queue"):
            await cluster.reset_offsets("g", "orders", wrong)
