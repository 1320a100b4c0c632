"""Receiving without owning queues: several members, settling, failures, and the listener."""

import asyncio
from contextlib import suppress
from uuid import uuid4

import pytest

from ariane_sdk import ClusterClient, Message, Producer, ReceiveConsumer
from ariane_sdk.consumer.receiving.receive_calls import ReceiveCalls
from ariane_sdk.errors import IllegalArgument, ReceiptExpired
from ariane_sdk.sync import ReceiveConsumer as BlockingReceiveConsumer

COUNT = 200


@pytest.fixture
async def topic(cluster):
    name = f"jobs-{uuid4().hex[:8]}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=4)
    return name


@pytest.fixture
def consumer_of(cluster, topic):
    def make(group="billing", **options):
        return ReceiveConsumer(
            cluster.name_servers, group=f"{group}-{topic}", subscriptions={topic: "*"}, **options
        )

    return make


async def send(cluster, topic, count=COUNT):
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message(topic, b"%d" % n) for n in range(count)])


async def test_members_share_all_queues(cluster, topic, consumer_of):
    await send(cluster, topic)
    got = []
    done = asyncio.Event()

    async def consume():
        async with consumer_of() as consumer:
            async for message in consumer.receive(8):
                got.append(int(message.body))
                await consumer.ack(message)
                if len(got) == COUNT:
                    done.set()

    members = [asyncio.create_task(consume()) for _ in range(8)]
    async with asyncio.timeout(60):
        await done.wait()
    for member in members:
        member.cancel()
    await asyncio.wait(members)
    assert sorted(got) == list(range(COUNT))


async def test_batches_are_settled_as_one_says(cluster, topic, consumer_of):
    await send(cluster, topic, 6)
    seen = []
    async with consumer_of() as consumer:
        while len(seen) < 6:
            seen += await consumer.receive_batch(6, timeout_s=60)
        await consumer.ack(*seen[:3])
        await consumer.nack(*seen[3:5], delay_s=0, cause="later")
        await consumer.extend(seen[5], seconds=0)
        again = []
        while len(again) < 3:
            again += await consumer.receive_batch(6, timeout_s=60)
        assert {m.body for m in again} == {m.body for m in seen[3:]}
        assert {m.receipt.attempts for m in again} == {(2,)}
        with pytest.raises(ReceiptExpired):
            await consumer.ack(seen[5])
        await consumer.ack(*again)
        await consumer.ack(*again)
        assert await consumer.receive_batch(timeout_s=0) == []


async def test_what_nobody_looked_at_is_given_back(cluster, topic, consumer_of):
    await send(cluster, topic, 3)
    async with consumer_of(invisible_s=3600) as one:
        messages = one.receive()
        first = await anext(messages)
        await one.ack(first)
        await messages.aclose()
    got = {first.body}
    async with consumer_of() as other, asyncio.timeout(60):
        while len(got) < 3:
            got |= {message.body for message in await other.receive_batch(timeout_s=60)}


async def test_an_answer_on_its_way_comes_with_the_next_call(
    cluster, topic, consumer_of, monkeypatch
):
    async with Producer(cluster.name_servers) as producer:
        for number in range(8):
            await producer.send(Message(topic, b"%d" % number))
        route = await producer.route(topic)
    late = route.brokers[-1].broker_name
    arrives = asyncio.Event()
    receive = ReceiveCalls.receive

    async def delayed(calls, broker, order, hold_s):
        messages = await receive(calls, broker, order, hold_s)
        if broker.broker_name == late:
            await arrives.wait()
        return messages

    monkeypatch.setattr(ReceiveCalls, "receive", delayed)
    async with consumer_of(invisible_s=3600) as consumer, asyncio.timeout(60):
        messages = await consumer.receive_batch(timeout_s=60)
        arrives.set()
        while len(messages) < 8:
            found = await consumer.receive_batch(3, timeout_s=60)
            assert len(found) <= 3
            messages += found
        assert {each.receipt.attempts for each in messages} <= {
            (1,),
            (1, 1),
            (1, 1, 1),
            (1, 1, 1, 1),
        }
        await consumer.ack(*messages)
    assert {each.body for each in messages} == {b"%d" % number for number in range(8)}


async def test_a_listener_works_on_several_at_a_time(cluster, topic, consumer_of):
    await send(cluster, topic, 40)
    tries = {}
    working, most = 0, 0
    done = asyncio.Event()

    async def work(message):
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0.01)
        working -= 1
        tries[message.body] = tries.get(message.body, 0) + 1
        if len(tries) == 40:
            done.set()

    async with consumer_of() as consumer:
        listening = asyncio.create_task(consumer.listen(work, concurrency=5))
        async with asyncio.timeout(60):
            await done.wait()
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
    assert set(tries.values()) == {1}
    assert 1 < most <= 5


async def test_messages_of_a_higher_priority_come_first(cluster, topic, consumer_of):
    priorities = [0, 7, -(1 << 31), (1 << 31) - 1]
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message(topic, b"x", priority=each) for each in priorities])
    got = []
    async with consumer_of(by_priority=True) as consumer:
        while len(got) < len(priorities):
            got += await consumer.receive_batch(1, timeout_s=60)
    assert [message.priority for message in got] == sorted(priorities, reverse=True)


async def test_programs_without_a_loop_receive(cluster, topic):
    await send(cluster, topic, 3)
    bodies = set()
    with BlockingReceiveConsumer(
        cluster.name_servers, group=f"sync-{topic}", subscriptions={topic: "*"}
    ) as consumer:
        for message in consumer.receive():
            bodies.add(message.body)
            consumer.ack(message)
            if len(bodies) == 3:
                break
    assert bodies == {b"0", b"1", b"2"}


async def test_without_a_loop_too_the_rest_is_given_back(cluster, topic, consumer_of):
    await send(cluster, topic, 3)

    def take_one():
        with BlockingReceiveConsumer(
            cluster.name_servers,
            group=f"billing-{topic}",
            subscriptions={topic: "*"},
            invisible_s=3600,
        ) as consumer:
            messages = consumer.receive()
            message = next(messages)
            consumer.ack(message)
            messages.close()
            return message.body

    got = {await asyncio.to_thread(take_one)}
    async with consumer_of() as other, asyncio.timeout(60):
        while len(got) < 3:
            got |= {message.body for message in await other.receive_batch(timeout_s=60)}


@pytest.mark.parametrize(
    "options", [{"subscriptions": {}}, {"invisible_s": -1}, {"group": "no group"}]
)
def test_what_cannot_be_is_refused_at_once(options):
    given = {"group": "billing", "subscriptions": {"jobs": "*"}} | options
    with pytest.raises(IllegalArgument):
        ReceiveConsumer("127.0.0.1:1", **given)
