import asyncio
import threading
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    PushSettings,
    QueueReader,
    errors,
)
from ariane_sdk.consumer.pulling import pull_loop as _pull_loop
from sdk.python.tests.consumer.push_side import Book, wait_until


async def test_ten_thousand_messages_in_order_per_group(topic, producer, make_consumer):
    messages = [
        Message(topic, f"{number % 37}:{number}".encode(), message_group=f"g{number % 37}")
        for number in range(10_000)
    ]
    book = Book()
    async with make_consumer(book, group="ten-thousand", batch_size=100) as consumer:
        await consumer.wait_assigned()
        assert len(consumer.assignment) == 8
        await producer.send_batch(messages)
        await book.wait(10_000)

    assert sorted(book.bodies) == sorted(message.body.decode() for message in messages)
    by_group = defaultdict(list)
    for body in book.bodies:
        group, number = body.split(":")
        by_group[group].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in by_group.values())
    assert max(map(len, book.batches)) <= 100


async def test_a_message_says_all_that_was_sent(topic, producer, make_consumer):
    book = Book()
    before = datetime.now(UTC) - timedelta(seconds=1)
    sent = await producer.send(
        Message(
            topic,
            b"body",
            tag="created",
            keys=("o-1", "o-2"),
            message_group="c-7",
            properties={"a": "b"},
            flag=9,
        )
    )
    async with make_consumer(book, group="curious"):
        await book.wait(1)
    [message] = book.messages

    assert (message.topic, message.body, message.tag) == (topic, b"body", "created")
    assert (message.keys, message.message_group, message.flag) == (("o-1", "o-2"), "c-7", 9)
    assert message.properties["a"] == "b"
    assert (message.unique_id, message.queue_offset) == (sent.unique_id, sent.queue_offset)
    assert message.message_queue == sent.message_queue
    assert message.commit_log_offset == sent.commit_log_offset
    assert message.offset_message_id == sent.message_id
    assert message.attempts == 0
    assert before < message.born_time <= message.store_time + timedelta(seconds=1)


async def test_a_message_says_when_it_was_due(topic, producer, make_consumer):
    book = Book()
    due = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    await producer.send(Message(topic, b"late", deliver_at=due))
    await producer.send(Message(topic, b"at once"))

    async with make_consumer(book, group="punctual"):
        await book.wait(2)

    said = {bytes(message.body): message.delivery_time for message in book.messages}
    assert said == {b"late": due, b"at once": None}


async def test_tags_are_filtered(topic, producer, make_consumer):
    # "Aa" and "BB" have the same hash, so that the broker hands out both.
    tags = ["Aa", "BB", "paid", ""]
    await producer.send_batch(
        [Message(topic, str(n).encode(), tag=tags[n % 4]) for n in range(100)]
    )
    book = Book()
    async with make_consumer(book, group="picky", tags="Aa || paid") as consumer:
        await book.wait(50)
        # What was left out is done too.
        await wait_until(lambda: all(not lag for lag in lags_of(consumer)))

    assert Counter(message.tag for message in book.messages) == {"Aa": 25, "paid": 25}


def lags_of(consumer):
    return [work.window.message_count for work in consumer._life.owned.in_work()]


async def test_two_members_share_and_hand_over(topic, producer, make_consumer):
    first_book, second_book = Book(), Book()
    async with make_consumer(first_book, group="pair") as first:
        await first.wait_assigned()
        assert len(first.assignment) == 8
        async with make_consumer(second_book, group="pair") as second:
            await second.wait_assigned()
            await wait_until(lambda: len(first.assignment) == 4)
            assert len(second.assignment) == 4
            assert not first.assignment & second.assignment
            for number in range(20):
                await producer.send_batch(
                    [Message(topic, f"{number}:{part}".encode()) for part in range(10)]
                )
            await wait_until(lambda: len(first_book.messages) + len(second_book.messages) >= 200)
            assert first_book.messages
            assert second_book.messages
        await wait_until(lambda: len(first.assignment) == 8)
        await producer.send(Message(topic, b"after"))
        await wait_until(lambda: b"after" in [m.body for m in first_book.messages])

    bodies = Counter(first_book.bodies + second_book.bodies)
    assert len(bodies) == 201
    assert set(bodies.values()) == {1}


class Circular:
    """Queues go round the members, so that two members share every broker."""

    name = "circular"

    def allocate(self, client_id, queues, client_ids):
        return queues[client_ids.index(client_id) :: len(client_ids)]


async def test_a_queue_that_is_taken_over_is_pulled_at_once(topic, producer, make_consumer):
    options = {
        "group": "swift",
        "settings": PushSettings(rebalance_gap_s_min=0.05, handover_s=0.1, hold_s=20.0),
        "strategy": Circular(),
    }
    book = Book()
    async with make_consumer(book, **options) as lasting:
        async with make_consumer(Book(), **options) as passing:
            await passing.wait_assigned()
            await wait_until(lambda: len(lasting.assignment) == 4)
            queues = passing.assignment
            # By now the pulls for the other queues are held, for 20 s.
        await wait_until(lambda: len(lasting.assignment) == 8)
        for queue in queues:
            await producer.send(Message(topic, b"x"), message_queue=queue)
        async with asyncio.timeout(60):
            await book.wait(4)


async def test_a_hand_over_under_load_skips_nothing(topic, producer, make_consumer):
    books = [Book(), Book(), Book()]
    sent = 0

    async def keep_sending():
        nonlocal sent
        while True:
            await producer.send_batch(
                [Message(topic, f"{sent + n}".encode(), message_group=str(n)) for n in range(20)]
            )
            sent += 20
            await asyncio.sleep(0.005)

    async with make_consumer(books[0], group="load") as lasting:
        await lasting.wait_assigned()
        sending = asyncio.create_task(keep_sending())
        await books[0].wait(200)
        async with make_consumer(books[1], group="load") as one:
            await books[1].wait(100)
            async with make_consumer(books[2], group="load") as two:
                await books[2].wait(100)
                assert not one.assignment & two.assignment
        await wait_until(lambda: len(lasting.assignment) == 8)
        assert not sending.done()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await producer.flush()
        # The last batch, whose call was given up, may have come too, and before others.
        await wait_until(lambda: seen(books).keys() >= {str(number) for number in range(sent)})

    # What was in work while queues changed hands may have come twice, and no more.
    assert sum(seen(books).values()) - len(seen(books)) <= 3 * 8 * 32


def seen(books):
    return Counter(body for book in books for body in book.bodies)


async def test_in_order_a_failed_batch_comes_again_and_the_queue_waits(
    topic, producer, make_consumer
):
    seen_bodies, failures = [], []
    done = asyncio.Event()

    async def listen(messages):
        body = messages[0].body.decode()
        seen_bodies.append(body)
        if body == "1" and len(failures) < 3:
            failures.append(body)
            raise RuntimeError("not today")
        if body == "4":
            done.set()

    for number in range(5):
        await producer.send(Message(topic, str(number).encode(), message_group="g"))
    async with make_consumer(listen, group="clumsy", batch_size=1, ordered=True):
        await asyncio.wait_for(done.wait(), 60)

    assert seen_bodies == ["0", "1", "1", "1", "1", "2", "3", "4"]


async def test_a_plain_function_runs_in_threads(topic, producer, make_consumer):
    names, bodies = set(), []
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def listen(messages):
        names.add(threading.current_thread().name)
        bodies.extend(message.body for message in messages)
        if len(bodies) >= 100:
            loop.call_soon_threadsafe(done.set)

    await producer.send_batch([Message(topic, b"x") for _ in range(100)])
    async with make_consumer(listen, group="threads"), asyncio.timeout(60):
        await done.wait()

    assert all(name.startswith("ariane-listener") for name in names)
    assert len(bodies) == 100


async def test_a_slow_listener_bounds_what_is_held(topic, producer, make_consumer):
    settings = PushSettings(queue_message_count_max=50, hold_s=1.0)
    gate, count = asyncio.Event(), 0
    done = asyncio.Event()

    async def listen(messages):
        nonlocal count
        await gate.wait()
        count += len(messages)
        if count >= 1000:
            done.set()

    await producer.send_batch([Message(topic, b"x", message_group="g") for _ in range(1000)])
    async with make_consumer(listen, group="slow", settings=settings) as consumer:
        await consumer.wait_assigned()
        await wait_until(lambda: max(lags_of(consumer)) >= 50)
        await asyncio.sleep(0.1)
        assert max(lags_of(consumer)) == 50
        gate.set()
        async with asyncio.timeout(60):
            await done.wait()

    assert count == 1000


async def test_more_queues_than_a_pull_can_name_take_turns(
    topic, producer, make_consumer, monkeypatch
):
    monkeypatch.setattr(_pull_loop, "POSITIONS_PER_PULL_MAX", 3)
    settings = PushSettings(hold_s=20.0)
    book = Book()
    async with make_consumer(book, group="turns", settings=settings) as consumer:
        await consumer.wait_assigned()
        async with asyncio.timeout(60):
            for queue in sorted(consumer.assignment):
                await producer.send(Message(topic, b"x"), message_queue=queue)
            await book.wait(8)


async def test_stop_delivers_nothing_new(topic, producer, make_consumer):
    book, started, finish = Book(), asyncio.Event(), asyncio.Event()

    async def listen(messages):
        started.set()
        await finish.wait()
        await book(messages)

    await producer.send_batch([Message(topic, b"x", message_group="g") for _ in range(50)])
    consumer = make_consumer(listen, group="abrupt", batch_size=1)
    await consumer.start()
    await started.wait()
    await wait_until(lambda: max(lags_of(consumer)) == 50)
    stopping = asyncio.create_task(consumer.close())
    await asyncio.sleep(0)
    finish.set()
    await stopping

    assert len(book.messages) == 1


async def test_a_stop_that_is_cancelled_goes_on_and_may_be_waited_for_again(
    cluster, topic, producer, make_consumer
):
    started, finish = asyncio.Event(), asyncio.Event()

    async def listen(_messages):
        started.set()
        await finish.wait()

    sent = await producer.send(Message(topic, b"x"))
    consumer = make_consumer(listen, group="impatient")
    await consumer.start()
    await started.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.close(), 0.1)
    finish.set()
    async with asyncio.timeout(60):
        await consumer.close()

    async with QueueReader(cluster.name_servers) as reader:
        assert (await reader.stored_offsets("impatient", topic))[sent.message_queue] == 1
    async with ClusterClient(cluster.name_servers) as client:
        assert not await client.list_members("impatient")


async def test_a_cancellation_inside_the_listener_is_a_failure_like_others(
    topic, producer, make_consumer
):
    book = Book()
    failures = iter(range(2))

    async def listen(messages):
        if next(failures, None) is not None:
            lost = asyncio.create_task(asyncio.sleep(30))
            lost.cancel()
            await lost
        await book(messages)

    await producer.send_batch([Message(topic, b"x", message_group="g") for _ in range(3)])
    async with make_consumer(listen, group="broken", batch_size=1, ordered=True):
        await book.wait(3)

    assert len(book.messages) == 3


async def test_members_must_agree(make_consumer):
    async with make_consumer(Book(), group="strict", tags="a"):
        with pytest.raises(errors.GroupRefused) as caught:
            await make_consumer(Book(), group="strict", tags="b").start()

    assert caught.value.reason == "SUBSCRIPTION_CONFLICT"
