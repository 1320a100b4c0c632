"""Messages that are sent one by one, and encoded when they leave."""

import asyncio

import pytest

from ariane_sdk import Message, Producer, ProducerSettings


def bodies_at(world, topic):
    queues = world.brokers["broker-a"].queues
    return [m.body for (name, _), queue in queues.items() if name == topic for m in queue]


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("count", [1, 3, 40, 300])
async def test_each_is_stored_as_it_was_sent(world, idempotent, count):
    settings = ProducerSettings(idempotent=idempotent)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        messages = [
            Message("orders", b"%d" % number, tag=("", "paid", "größe")[number % 3])
            for number in range(count)
        ]
        results = await asyncio.gather(*map(producer.send, messages))

    queues = world.brokers["broker-a"].queues
    for message, result in zip(messages, results, strict=True):
        queue = result.message_queue
        stored = queues[queue.topic, queue.queue_id][result.queue_offset]
        assert (stored.body, stored.tag) == (message.body, message.tag)
        assert stored.unique_id == result.unique_id
    assert len({result.unique_id for result in results}) == count
    for batch in (each for call in world.brokers["broker-a"].calls for each in call.rows):
        assert (batch.sequence is not None) is idempotent


@pytest.mark.parametrize("rich_at", [0, 5, 19])
async def test_plain_ones_share_a_batch_with_others(world, rich_at):
    async with Producer(world.name_servers) as producer:
        await producer.route("orders")
        messages = [Message("orders", b"%d" % number, tag="t") for number in range(20)]
        messages[rich_at].keys = ("k1", "k2")
        messages[rich_at].properties = {"a": "b"}
        results = await asyncio.gather(*map(producer.send, messages))

    (call,) = world.brokers["broker-a"].calls
    (batch,) = call.rows
    stored = world.brokers["broker-a"].queues["orders", batch.queue_id]
    assert [each.body for each in stored] == [each.body for each in messages]
    assert [each.unique_id for each in stored] == [each.unique_id for each in results]
    assert stored[rich_at].keys == ("k1", "k2")
    assert list(batch.key_counts) == [3 if n == rich_at else 1 for n in range(20)]


async def test_many_topics_share_a_request(world):
    topics = [f"topic-{number}" for number in range(30)]
    for topic in topics:
        world.name_server.set_route(topic, {"broker-a": world.brokers["broker-a"].address})
    async with Producer(world.name_servers) as producer:
        await asyncio.gather(*map(producer.route, topics))
        sends = [producer.send(Message(t, b"%d" % n)) for n in range(4) for t in topics]
        results = await asyncio.gather(*sends)

    (call,) = world.brokers["broker-a"].calls
    assert len(call.rows) == len(topics)
    for topic in topics:
        assert bodies_at(world, topic) == [b"0", b"1", b"2", b"3"]
    assert [result.message_queue.topic for result in results] == topics * 4


@pytest.mark.parametrize("taken_back", [0, 7, 19])
async def test_a_send_cancelled_before_its_call_is_not_stored(world, taken_back):
    broker = world.brokers["broker-a"]
    goes_on = asyncio.Event()
    broker.script.append(goes_on)
    settings = ProducerSettings(large_calls_in_flight_max=1)
    async with Producer(world.name_servers, settings=settings) as producer:
        blocker = asyncio.create_task(producer.send(Message("orders", b"first")))
        await broker.wait_called(1)
        tasks = [
            asyncio.create_task(producer.send(Message("orders", b"%d" % number)))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        tasks[taken_back].cancel()
        await asyncio.wait((tasks[taken_back],))
        goes_on.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await blocker

    assert isinstance(outcomes[taken_back], asyncio.CancelledError)
    kept = [b"%d" % number for number in range(20) if number != taken_back]
    assert [body for body in broker.bodies if body != b"first"] == kept
    others = [each.queue_offset for each in outcomes if not isinstance(each, BaseException)]
    assert others == list(range(others[0], others[0] + 19))


async def test_a_repeat_is_the_same_bytes_under_the_same_numbers(world):
    world.brokers["broker-a"].script.append("store and hang")
    settings = ProducerSettings(call_timeout_s=1.0, repeat_delay_s_min=0.01)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        sends = [producer.send(Message("orders", b"%d" % number)) for number in range(20)]
        await asyncio.gather(*sends)

    first, second = world.brokers["broker-a"].calls
    assert first.rows == second.rows


async def test_small_bodies_fill_a_batch_whatever_comes_among_them(world):
    settings = ProducerSettings(body_bytes_max=100)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        messages = [Message("orders", b"x" * 100) for _ in range(600)]
        messages[500].keys = ("k",)
        results = await asyncio.gather(*map(producer.send, messages))

    assert len({result.unique_id for result in results}) == len(messages)
    assert len(bodies_at(world, "orders")) == len(messages)
