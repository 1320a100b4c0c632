"""Consumers that want what fulfils a condition: pushed and pulled, with and without a loop."""

import asyncio
import itertools

import pytest

from ariane_sdk import Message, Producer, PullConsumer, PushConsumer, Sql, errors, sync

ORIGINS = ("JFK", "LGA", "EWR")
LATE = Sql("origin = 'JFK' AND dep_delay > 60")
_numbers = itertools.count()


@pytest.fixture
def topic():
    return f"flights-{next(_numbers)}"


def flights(topic, count=300):
    """Every third is one from JFK; delays go from 0 up."""
    return [
        Message(
            topic,
            b"%d" % number,
            tag="UA",
            properties={"origin": ORIGINS[number % 3], "dep_delay": str(number)},
        )
        for number in range(count)
    ]


WANTED = list(range(63, 300, 3))


async def send(cluster, topic):
    async with Producer(cluster.name_servers) as producer:
        results = await producer.send_batch(flights(topic))
    return list({result.message_queue for result in results})


async def test_a_push_consumer_gets_what_matches(cluster, topic):
    await send(cluster, topic)
    found = []
    done = asyncio.Event()

    async def listen(messages):
        found.extend(int(message.body) for message in messages)
        if len(found) == len(WANTED):
            done.set()

    async with PushConsumer(
        cluster.name_servers,
        group=f"push-{topic}",
        subscriptions={topic: LATE},
        listener=listen,
        start="earliest",
    ):
        await asyncio.wait_for(done.wait(), 90)
    assert sorted(found) == WANTED


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_pull_consumer_gets_what_matches(cluster, topic, by_hand):
    queues = await send(cluster, topic)
    subscriptions = None if by_hand else {topic: LATE}
    found = []
    async with PullConsumer(
        cluster.name_servers, group=f"pull-{topic}", subscriptions=subscriptions, start="earliest"
    ) as consumer:
        if by_hand:
            await consumer.assign(queues, filters={topic: LATE})
            for queue in queues:
                await consumer.seek(queue, "earliest")
        while len(found) < len(WANTED):
            found += [int(message.body) for message in await consumer.poll(timeout_s=30)]
    assert sorted(found) == WANTED


async def test_columns_of_bodies_alone_are_filtered_too(cluster, topic):
    await send(cluster, topic)
    found = []
    async with PullConsumer(
        cluster.name_servers,
        group=f"columns-{topic}",
        subscriptions={topic: LATE},
        start="earliest",
        column_names=["body"],
    ) as consumer:
        async for batch in consumer.columns():
            found += map(int, batch["body"].to_pylist())
            if len(found) >= len(WANTED):
                break
    assert sorted(found) == WANTED


def test_without_a_loop(cluster, topic):
    with sync.Producer(cluster.name_servers) as producer:
        producer.send_batch(flights(topic))
    found = []
    with sync.PullConsumer(
        cluster.name_servers, group=f"sync-{topic}", subscriptions={topic: LATE}, start="earliest"
    ) as consumer:
        while len(found) < len(WANTED):
            found += [int(message.body) for message in consumer.poll(timeout_s=30)]
    assert sorted(found) == WANTED


async def test_a_group_that_does_not_agree_is_refused(cluster, topic):
    await send(cluster, topic)
    group = f"agreement-{topic}"
    async with PullConsumer(cluster.name_servers, group=group, subscriptions={topic: LATE}):
        other = {topic: Sql("origin = 'JFK'")}
        with pytest.raises(errors.GroupRefused):
            async with PullConsumer(cluster.name_servers, group=group, subscriptions=other):
                pass
        async with PullConsumer(cluster.name_servers, group=group, subscriptions={topic: LATE}):
            pass


def test_an_invalid_condition_is_refused_with_its_place():
    with pytest.raises(errors.FilterIllegal, match="character 3: 'like' was not expected") as found:
        Sql("a like 'x'")
    assert found.value.metadata == {"expression": "a like 'x'", "position": "2"}
    assert found.value.reason == "FILTER_EXPRESSION_INVALID"
    with pytest.raises(errors.FilterIllegal, match="a text is expected"):
        Sql(5)


def test_conditions_are_values():
    assert Sql("a = 1") == Sql("a = 1")
    assert len({Sql("a = 1"), Sql("a = 1"), Sql("a = 2")}) == 2
