"""Where push consumers begin, and the offsets that they store."""

import asyncio
from datetime import UTC, datetime

import pytest

from ariane_sdk import Message, MessageQueue, PushSettings, QueueReader, errors
from sdk.python.tests.consumer.push_side import Book, wait_until


async def test_a_member_stores_the_offset_of_a_queue_that_it_gives_up(
    topic, producer, make_consumer
):
    settings = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.3, offset_store_interval_s=60.0)
    first, second = Book(), Book()
    await producer.send_batch([Message(topic, b"x", message_group=str(n)) for n in range(100)])
    async with make_consumer(first, group="exact", settings=settings) as one:
        await first.wait(100)
        async with make_consumer(second, group="exact", settings=settings) as two:
            await wait_until(lambda: len(one.assignment) == len(two.assignment) == 4)
            await producer.send_batch(
                [Message(topic, b"y", message_group=str(n)) for n in range(100)]
            )
            await wait_until(lambda: len(first.messages) + len(second.messages) >= 200)

    assert set(second.bodies) == {"y"}
    assert len(first.messages) + len(second.messages) == 200


async def test_a_successor_goes_on_where_the_last_one_stopped(
    cluster, topic, producer, make_consumer
):
    book = Book()
    await producer.send_batch([Message(topic, str(n).encode()) for n in range(100)])
    async with make_consumer(book, group="relay") as consumer:
        await consumer.wait_assigned()
        await book.wait(100)
    async with QueueReader(cluster.name_servers) as reader:
        bounds = await reader.bounds(topic)
        stored = await reader.stored_offsets("relay", topic)
    assert stored == {queue: end for queue, (_, end) in bounds.items()}

    await producer.send_batch([Message(topic, str(n).encode()) for n in range(100, 150)])
    successor = Book()
    async with make_consumer(successor, group="relay"):
        await successor.wait(50)

    assert sorted(map(int, successor.bodies)) == list(range(100, 150))


@pytest.mark.parametrize("way", [{}, {"ordered": True}])
async def test_each_batch_is_stored_before_the_next_one_where_that_is_wanted(
    cluster, topic, producer, make_consumer, way
):
    queue, group = MessageQueue(topic, "broker-a", 0), "-".join(["each", *way])
    for number in range(7):
        await producer.send(Message(topic, b"%d" % number), message_queue=queue)
    settings = PushSettings(store_each_batch=True, offset_store_interval_s=60.0)
    seen = []
    async with QueueReader(cluster.name_servers) as reader:

        async def listen(messages):
            stored = await reader.stored_offsets(group, topic)
            seen.append((messages[0].queue_offset, stored.get(queue, 0)))

        options = {"group": group, "batch_size": 2, "start": "earliest", "settings": settings}
        async with make_consumer(listen, **options, **way):
            await wait_until(lambda: len(seen) == 4)
    assert seen == [(0, 0), (2, 2), (4, 4), (6, 6)]


async def test_a_read_at_an_offset_says_where_the_queue_begins_and_ends(cluster, topic, producer):
    queue = MessageQueue(topic, "broker-a", 0)
    for number in range(5):
        await producer.send(Message(topic, b"%d" % number), message_queue=queue)
    async with QueueReader(cluster.name_servers) as reader:
        pulled = await reader.pull(queue, 1, count_max=2)
        assert [message.body for message in pulled.messages] == [b"1", b"2"]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 5)
        beyond = await reader.pull(queue, 9)
        assert (list(beyond.messages), beyond.next_offset, beyond.max_offset) == ([], 5, 5)
        with pytest.raises(errors.QueueNotFound):
            await reader.pull(MessageQueue(topic, "broker-a", 99), 0)


async def test_offsets_are_stored_while_running(cluster, topic, producer, make_consumer):
    book = Book()
    async with make_consumer(book, group="running"), QueueReader(cluster.name_servers) as reader:
        sent = await producer.send(Message(topic, b"one"))
        await book.wait(1)

        stored = {}
        async with asyncio.timeout(60):
            while stored.get(sent.message_queue) != 1:
                stored = await reader.stored_offsets("running", topic)


async def test_latest_begins_with_what_is_to_come(topic, producer, make_consumer):
    await producer.send_batch([Message(topic, b"old") for _ in range(50)])
    book = Book()
    async with make_consumer(book, group="late", start="latest") as consumer:
        await consumer.wait_assigned()
        await producer.send(Message(topic, b"new"))
        await book.wait(1)
    # Also for a successor: that nothing was consumed is remembered too.
    await producer.send(Message(topic, b"between"))
    successor = Book()
    async with make_consumer(successor, group="late", start="latest"):
        await successor.wait(1)

    assert book.bodies == ["new"]
    assert successor.bodies == ["between"]


async def test_latest_is_stored_before_anything_is_consumed(
    cluster, topic, producer, make_consumer
):
    await producer.send_batch([Message(topic, b"old") for _ in range(50)])
    settings = PushSettings(offset_store_interval_s=60.0)
    async with (
        make_consumer(Book(), group="crash", start="latest", settings=settings) as consumer,
        QueueReader(cluster.name_servers) as reader,
    ):
        await consumer.wait_assigned()

        stored = await reader.stored_offsets("crash", topic)
        assert stored == {q: end for q, (_, end) in (await reader.bounds(topic)).items()}


async def test_a_time_begins_with_the_first_message_stored_since(topic, producer, make_consumer):
    await producer.send_batch([Message(topic, b"old") for _ in range(50)])
    await asyncio.sleep(0.01)
    now = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await producer.send_batch([Message(topic, b"new") for _ in range(20)])
    book = Book()
    async with make_consumer(book, group="since", start=now):
        await book.wait(20)

    assert set(book.bodies) == {"new"}


async def test_stop_waits_for_the_listener_and_stores_what_it_did(
    cluster, topic, producer, make_consumer
):
    started, finish = asyncio.Event(), asyncio.Event()

    async def listen(_messages):
        started.set()
        await finish.wait()

    sent = await producer.send(Message(topic, b"x"))
    consumer = make_consumer(listen, group="tidy")
    await consumer.start()
    await started.wait()
    stopping = asyncio.create_task(consumer.close())
    done, _ = await asyncio.wait((stopping,), timeout=0.1)
    assert not done
    finish.set()
    await stopping

    async with QueueReader(cluster.name_servers) as reader:
        assert (await reader.stored_offsets("tidy", topic))[sent.message_queue] == 1
