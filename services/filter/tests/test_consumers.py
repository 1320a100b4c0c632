"""Consumers of the SDK whose subscription is an uploaded filter."""

import asyncio
import itertools
import logging

import pytest

from ariane_filter.jail import jailed_filter
from ariane_sdk import (
    MessageQueue,
    PullConsumer,
    PullSettings,
    PushConsumer,
    QueueReader,
    Uploaded,
    errors,
    sync,
)
from ariane_sdk.consumer.pulling import pull_loop

WANTED = list(range(63, 300, 3))
PATIENT = PullSettings(call_timeout_s=30.0)
BODY = b"def matches(message): return int(message.body) % 2 == 0"
_numbers = itertools.count()


@pytest.fixture
def topic(make_ariane_topic):
    return make_ariane_topic(queue_count=1)


@pytest.fixture
def group():
    return f"filtered-{next(_numbers)}"


@pytest.fixture
def pulled(ariane_name_servers, topic, group):
    """A pull consumer of the topic, and what it gets until so many have come."""

    def make(filter_version, **settings):
        return PullConsumer(
            ariane_name_servers,
            group=group,
            subscriptions={topic: Uploaded(filter_version)},
            start="earliest",
            settings=PullSettings(**settings),
        )

    return make


async def numbers(consumer, count):
    found = []
    async with asyncio.timeout(90):
        while len(found) < count:
            found += [int(message.body) for message in await consumer.poll(timeout_s=30)]
    return found


async def test_a_push_consumer_gets_what_matches(
    filter_server, ariane_name_servers, topic, group, store
):
    await store(topic)
    late = await filter_server.upload()
    found, done = [], asyncio.Event()

    async def listen(messages):
        found.extend(int(message.body) for message in messages)
        if len(found) >= len(WANTED):
            done.set()

    async with PushConsumer(
        ariane_name_servers,
        group=group,
        subscriptions={topic: Uploaded(late)},
        listener=listen,
        start="earliest",
    ):
        await asyncio.wait_for(done.wait(), 90)
    assert found == WANTED
    async with QueueReader(ariane_name_servers) as reader:
        stored = await reader.stored_offsets(group, topic)
    assert list(stored.values()) == [300]


async def test_a_filter_in_the_code_of_the_consumer_is_uploaded_where_it_is_missing(
    filter_server, ariane_name_servers, topic, group, store
):
    await store(topic, 10)
    odd = Uploaded.source("def matches(message): return int(message.body) % 2 == 1")
    for member in group, f"{group}-other":
        async with PullConsumer(
            ariane_name_servers, group=member, subscriptions={topic: odd}, start="earliest"
        ) as consumer:
            assert await numbers(consumer, 5) == [1, 3, 5, 7, 9]
    wrong = Uploaded.source("def matches(message: return True")
    with pytest.raises(errors.CallError) as refused:
        async with PullConsumer(
            ariane_name_servers, group=f"{group}-wrong", subscriptions={topic: wrong}
        ) as consumer:
            await numbers(consumer, 1)
    assert refused.value.reason == "FILTER_MODULE_INVALID"


async def test_queues_by_hand_and_other_topics_beside_it(
    filter_server, ariane_name_servers, make_ariane_topic, topic, group, store
):
    """A topic with another filter comes from the broker; filters may change while it is pulled."""
    other = make_ariane_topic(queue_count=1)
    await store(topic)
    await store(other, 5)
    late = await filter_server.upload()
    queues = [MessageQueue(each, "broker-a", 0) for each in (topic, other)]
    async with PullConsumer(ariane_name_servers, group=group, start="earliest") as consumer:
        await consumer.assign(queues, filters={topic: Uploaded(late)})
        for queue in queues:
            await consumer.seek(queue, "earliest")
        found = await numbers(consumer, len(WANTED) + 5)
        assert sorted(found) == sorted([*WANTED, *range(5)])
        await consumer.assign(queues, filters={topic: "*"})
        await consumer.seek(queues[0], 290)
        assert await numbers(consumer, 10) == list(range(290, 300))
        await consumer.assign(queues, filters={topic: Uploaded(late)})
        await consumer.seek(queues[0], 280)
        assert await numbers(consumer, 6) == [282, 285, 288, 291, 294, 297]


async def test_columns_are_filtered_too(filter_server, ariane_name_servers, topic, group, store):
    await store(topic)
    late = await filter_server.upload()
    found = []
    async with PullConsumer(
        ariane_name_servers,
        group=group,
        subscriptions={topic: Uploaded(late)},
        start="earliest",
        column_names=["body"],
    ) as consumer:
        async for batch in consumer.columns():
            found += map(int, batch["body"].to_pylist())
            if len(found) >= len(WANTED):
                break
    assert found == WANTED


async def test_without_a_loop(filter_server, ariane_name_servers, topic, group, store):
    await store(topic)
    late = await filter_server.upload()

    def consume():
        found = []
        with sync.PullConsumer(
            ariane_name_servers,
            group=group,
            subscriptions={topic: sync.Uploaded(late)},
            start="earliest",
            settings=PATIENT,
        ) as consumer:
            while len(found) < len(WANTED):
                found += [int(message.body) for message in consumer.poll(timeout_s=30)]
        return found

    assert await asyncio.wait_for(asyncio.to_thread(consume), 90) == WANTED


async def test_a_consumer_goes_on_over_another_server(start_filter_server, topic, store, pulled):
    servers = [await start_filter_server(), await start_filter_server()]
    await store(topic)
    late = await servers[0].upload()
    async with pulled(late, queue_message_count_max=8) as consumer:
        found = await numbers(consumer, 8)
        (serving,) = [each for each in servers if (await each.state()).workers]
        await serving.stop()
        found += await numbers(consumer, len(WANTED) - len(found))
    assert found == WANTED
    (left,) = [each for each in servers if each is not serving]
    assert (await left.state()).delivered_record_count


async def test_no_server_left_is_a_clear_error_and_offsets_stand(
    start_filter_server, ariane_name_servers, topic, group, store, pulled
):
    server = await start_filter_server()
    late = await server.upload()
    await store(topic, 100)
    before = list(range(63, 100, 3))
    async with pulled(late, filter_servers_wait_s=0.5) as consumer:
        assert await numbers(consumer, len(before)) == before
        await server.stop()
        await store(topic, 100)
        with pytest.raises(errors.FilterServersUnreachable) as raised:
            await numbers(consumer, 1)
    assert raised.value.reason == "FILTER_SERVERS_UNREACHABLE"
    async with QueueReader(ariane_name_servers) as reader:
        stored = await reader.stored_offsets(group, topic)
    assert list(stored.values()) == [100]
    # With a server again, the group goes on where it was.
    await start_filter_server()
    async with pulled(late) as consumer:
        assert await numbers(consumer, len(before)) == before


async def test_a_push_consumer_ends_with_the_reason(
    filter_server, ariane_name_servers, topic, group, store, monkeypatch
):
    monkeypatch.setattr(jailed_filter, "PAUSE_S", 0.01)
    monkeypatch.setattr(pull_loop, "RECONNECT_DELAY_S_MAX", 0.05)
    await store(topic)
    wild = await filter_server.upload(b"def matches(message): return 1 / 0", "wild")

    async def listen(messages):
        raise AssertionError(messages)

    async with PushConsumer(
        ariane_name_servers,
        group=group,
        subscriptions={topic: Uploaded(wild)},
        listener=listen,
        start="earliest",
    ) as consumer:
        with pytest.raises(errors.FilterRefused, match="ZeroDivisionError") as raised:
            await asyncio.wait_for(consumer.run_until_stopped(handle_signals=False), 90)
    assert raised.value.reason == "FILTER_QUARANTINED"
    async with QueueReader(ariane_name_servers) as reader:
        assert set((await reader.stored_offsets(group, topic)).values()) <= {0}


async def test_a_filter_that_is_not_there_is_said(filter_server, pulled, topic, store):
    await store(topic)
    async with pulled("nobody@0123456789ab") as consumer:
        with pytest.raises(errors.FilterRefused) as raised:
            await numbers(consumer, 1)
    assert raised.value.reason == "FILTER_NOT_FOUND"
    del filter_server


async def test_a_group_goes_on_behind_a_damaged_body_which_becomes_a_dead_letter(
    filter_server, ariane_name_servers, topic, group, store, pulled, caplog
):
    await store(topic, 20, damaged=[4])
    even = await filter_server.upload(BODY, "even")
    with caplog.at_level(logging.WARNING):
        async with pulled(even) as consumer:
            assert await numbers(consumer, 9) == [0, 2, *range(6, 20, 2)]
    (told,) = [each.getMessage() for each in caplog.records if "cannot be read" in each.message]
    assert f"1 message of {topic}" in told
    assert "dead letters: at 4: " in told
    async with QueueReader(ariane_name_servers) as reader:
        stored = await reader.stored_offsets(group, topic)
    assert list(stored.values()) == [20]
