"""What is sent together is spread over queues, unless a message group asks otherwise."""

import asyncio
from collections import Counter

import pyarrow as pa
import pytest

from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.producer.queues import queue_choice
from ariane_sdk.producer.queues.queue_choice import (
    PAUSE_S,
    SPREAD_CALLS_MAX,
    CallFlow,
)

COUNT = 200
QUEUES = 4
SHARE = ProducerSettings().spread_count
WHOLE_BATCHES = ProducerSettings(spread_count=0)


def jobs(count=COUNT, **fields):
    return [Message("jobs", b"%d" % number, **fields) for number in range(count)]


async def gathered(producer, messages):
    await asyncio.gather(*(producer.send(message) for message in messages))


async def gathered_with_the_route_known(producer, messages):
    await producer.route("jobs")
    await gathered(producer, messages)


async def one_way(producer, messages):
    for message in messages:
        await producer.send_one_way(message)
    await producer.flush()


async def in_a_batch(producer, messages):
    results = await producer.send_batch(messages)
    assert [result.message_queue.topic for result in results] == ["jobs"] * len(messages)


async def as_columns(producer, messages):
    await producer.send_columns("jobs", pa.table({"body": [message.body for message in messages]}))


@pytest.fixture
def jobs_world(world):
    """``world`` with a topic of four queues."""
    addresses = {name: broker.address for name, broker in world.brokers.items()}
    world.name_server.set_route("jobs", addresses, queue_count=QUEUES)
    return world


def counts_of(broker):
    return Counter({queue_id: len(stored) for (_, queue_id), stored in broker.queues.items()})


EVERY_WAY = (gathered, gathered_with_the_route_known, one_way, in_a_batch, as_columns)


@pytest.mark.parametrize("send", EVERY_WAY)
async def test_messages_sent_together_are_spread_over_queues(jobs_world, send):
    async with Producer(jobs_world.name_servers) as producer:
        await send(producer, jobs())

    counts = counts_of(jobs_world.brokers["broker-a"])
    assert sum(counts.values()) == COUNT
    assert len(counts) == QUEUES
    assert max(counts.values()) - min(counts.values()) <= SHARE


async def test_messages_sent_together_later_are_spread_too(jobs_world):
    broker = jobs_world.brokers["broker-a"]
    async with Producer(jobs_world.name_servers) as producer:
        for round_count in range(1, 4):
            await gathered(producer, jobs())
            counts = counts_of(broker)
            assert sum(counts.values()) == COUNT * round_count
            assert max(counts.values()) - min(counts.values()) <= SHARE * round_count


async def test_a_queue_gets_as_many_in_its_turn_as_are_under_way(jobs_world):
    broker = jobs_world.brokers["broker-a"]
    goes_on = asyncio.Event()
    broker.script.append(goes_on)
    async with Producer(jobs_world.name_servers) as producer:
        await producer.route("jobs")
        first = asyncio.create_task(gathered(producer, jobs()))
        await broker.wait_called(1)
        second = asyncio.create_task(gathered(producer, jobs()))
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(first, second)

    assert [len(call.rows) for call in broker.calls] == [QUEUES, 1]


@pytest.mark.parametrize("send", [gathered, in_a_batch])
@pytest.mark.parametrize(
    "fields", [{"keys": ("k",)}, {"delay_level": 1}], ids=["with keys", "delayed"]
)
async def test_messages_that_are_not_plain_are_spread_too(jobs_world, send, fields):
    async with Producer(jobs_world.name_servers) as producer:
        await send(producer, jobs(**fields))

    counts = counts_of(jobs_world.brokers["broker-a"])
    assert sum(counts.values()) == COUNT
    assert len(counts) == QUEUES
    assert max(counts.values()) - min(counts.values()) <= SHARE


@pytest.mark.parametrize("send", [gathered, in_a_batch])
async def test_a_message_group_stays_in_its_queue(jobs_world, send):
    async with Producer(jobs_world.name_servers) as producer:
        await send(producer, jobs(message_group="one"))

    (queue,) = jobs_world.brokers["broker-a"].queues.values()
    assert [message.body for message in queue] == [message.body for message in jobs()]


@pytest.mark.parametrize("send", EVERY_WAY)
async def test_whole_batches_for_those_who_want_them(jobs_world, send):
    async with Producer(jobs_world.name_servers, settings=WHOLE_BATCHES) as producer:
        await send(producer, jobs())

    assert list(counts_of(jobs_world.brokers["broker-a"]).values()) == [COUNT]


async def test_each_queue_gets_an_equal_share_of_a_batch(jobs_world):
    async with Producer(jobs_world.name_servers) as producer:
        await in_a_batch(producer, jobs())

    counts = counts_of(jobs_world.brokers["broker-a"])
    assert counts == dict.fromkeys(range(QUEUES), COUNT // QUEUES)


async def test_each_message_of_a_batch_is_where_its_result_says(jobs_world):
    async with Producer(jobs_world.name_servers) as producer:
        results = await producer.send_batch(jobs(tag="t"))

    broker = jobs_world.brokers["broker-a"]
    assert len(broker.calls) < QUEUES
    for message, result in zip(jobs(tag="t"), results, strict=True):
        queue = broker.queues["jobs", result.message_queue.queue_id]
        stored = queue[result.queue_offset]
        assert (stored.body, stored.tag, stored.unique_id) == (
            message.body,
            "t",
            result.unique_id,
        )


@pytest.mark.parametrize("send", [in_a_batch, as_columns])
async def test_of_more_batches_at_a_time_than_queues_the_later_ones_stay_whole(jobs_world, send):
    async with Producer(jobs_world.name_servers) as producer:
        await asyncio.gather(*(send(producer, jobs()) for _ in range(3 * QUEUES)))

    broker = jobs_world.brokers["broker-a"]
    sizes = Counter(len(batch.key_counts) for call in broker.calls for batch in call.rows)
    assert sizes == {COUNT // QUEUES: QUEUES * QUEUES, COUNT: 2 * QUEUES}
    assert set(counts_of(broker).values()) == {3 * COUNT}


@pytest.mark.parametrize("send", [in_a_batch, as_columns])
async def test_of_many_batches_in_a_row_the_later_ones_stay_whole(jobs_world, send, monkeypatch):
    monkeypatch.setattr(queue_choice, "PAUSE_S", 600.0)
    count = SPREAD_CALLS_MAX + 2 * QUEUES
    async with Producer(jobs_world.name_servers) as producer:
        for _ in range(count):
            await send(producer, jobs())

    broker = jobs_world.brokers["broker-a"]
    sizes = Counter(len(batch.key_counts) for call in broker.calls for batch in call.rows)
    assert sizes == {COUNT // QUEUES: SPREAD_CALLS_MAX * QUEUES, COUNT: 2 * QUEUES}
    assert set(counts_of(broker).values()) == {COUNT * count // QUEUES}


def test_large_sends_after_a_pause_are_spread_again():
    flow = CallFlow()
    for moment in range(SPREAD_CALLS_MAX):
        assert flow.begin(now_s=moment * PAUSE_S)
        flow.end(now_s=(moment + 1) * PAUSE_S)
    end_s = SPREAD_CALLS_MAX * PAUSE_S

    assert not flow.begin(end_s)
    flow.end(end_s)
    assert flow.begin(end_s + 2 * PAUSE_S)


async def test_few_messages_share_a_queue(jobs_world):
    async with Producer(jobs_world.name_servers) as producer:
        await producer.route("jobs")
        await gathered(producer, jobs(SHARE))

    assert len(counts_of(jobs_world.brokers["broker-a"])) == 1
