"""The pull consumer against real brokers."""

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    QueueReader,
    errors,
)
from ariane_sdk.consumer.owned_queues import OwnedQueues

_numbers = itertools.count()

BRISK = PullSettings(
    rebalance_gap_s_min=0.05,
    handover_s=0.3,
    offset_store_interval_s=0.1,
    hold_s=2.0,
    release_timeout_s=3.0,
    call_timeout_s=20.0,
)


@pytest.fixture
async def topic(cluster):
    name = f"pulled-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
def make_consumer(cluster, topic):
    def make(**arguments):
        options = {"group": "pull", "start": "earliest", "settings": BRISK} | arguments
        options.setdefault("subscriptions", {topic: "*"})
        return PullConsumer(cluster.name_servers, **options)

    return make


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def reader(cluster):
    async with QueueReader(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def one_queue(topic, producer):
    """Ten messages of one queue, "0" to "9"."""
    sent = await producer.send_batch(
        [Message(topic, str(number).encode(), message_group="g") for number in range(10)]
    )
    return sent[0].message_queue


async def poll_all(consumer, count):
    messages = []
    async with asyncio.timeout(60):
        while len(messages) < count:
            messages += await consumer.poll(timeout_s=20)
    return messages


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.02)


def bodies(messages):
    return [message.body.decode() for message in messages]


async def test_polls_bring_everything_in_the_order_of_each_queue(topic, producer, make_consumer):
    await producer.send_batch([Message(topic, str(number).encode()) for number in range(3000)])
    async with make_consumer() as consumer:
        messages = await poll_all(consumer, 3000)
        assert await consumer.poll(timeout_s=0) == []

    assert Counter(bodies(messages)) == Counter(map(str, range(3000)))
    last = {}
    for message in messages:
        assert message.queue_offset > last.get(message.message_queue, -1)
        last[message.message_queue] = message.queue_offset


async def test_a_poll_waits_for_the_first_message(topic, producer, make_consumer):
    async with make_consumer() as consumer:
        await consumer.wait_assigned()
        poll = asyncio.create_task(consumer.poll(timeout_s=20))
        await asyncio.sleep(0.1)
        await producer.send(Message(topic, b"late"))

        assert bodies(await poll) == ["late"]
        assert await consumer.poll(timeout_s=0.05) == []


async def test_a_queue_does_not_starve_the_others(topic, producer, make_consumer):
    async with make_consumer() as consumer:
        await consumer.wait_assigned()
        queues = sorted(consumer.assignment)
        for queue in queues:
            for _ in range(20):
                await producer.send(Message(topic, b"x"), message_queue=queue)
        await wait_until(lambda: _is_waiting(consumer, 20))
        polls = [await consumer.poll(5, timeout_s=20) for _ in range(4)]

    assert [{m.message_queue for m in poll} for poll in polls] == [
        {p[0].message_queue} for p in polls
    ]
    assert {poll[0].message_queue for poll in polls} == set(queues)


async def _is_waiting(consumer, count):
    return all(work.window.message_count == count for work in consumer._life.owned.in_work())


async def test_offsets_of_earlier_polls_are_stored_by_themselves(
    topic, one_queue, make_consumer, reader
):
    async with make_consumer(group="auto") as consumer:
        assert len(await consumer.poll(4, timeout_s=20)) == 4
        await asyncio.sleep(0.3)
        # They are still in hand.
        assert (await reader.stored_offsets("auto", topic))[one_queue] == 0
        assert bodies(await consumer.poll(1, timeout_s=20)) == ["4"]

        async def is_stored():
            return (await reader.stored_offsets("auto", topic))[one_queue] == 4

        await wait_until(is_stored)
    assert (await reader.stored_offsets("auto", topic))[one_queue] == 5


@pytest.mark.parametrize("auto_commit", [True, False])
async def test_offsets_behind_filtered_messages_are_stored(
    topic, one_queue, make_consumer, reader, auto_commit
):
    long_holds = replace(BRISK, hold_s=20.0)
    async with asyncio.timeout(60):
        async with make_consumer(
            group="choosy",
            subscriptions={topic: "nobody-has-it"},
            settings=long_holds,
            auto_commit=auto_commit,
        ) as consumer:
            while (await reader.stored_offsets("choosy", topic)).get(one_queue) != 10:
                assert await consumer.poll(timeout_s=0.02) == []


async def test_filtered_messages_pass_no_message_in_hand(topic, producer, one_queue, make_consumer):
    for tag in ("wanted", "other", "other"):
        await producer.send(Message(topic, b"x", tag=tag), message_queue=one_queue)
    options = {"group": "careful", "subscriptions": {topic: "wanted"}, "auto_commit": False}
    async with make_consumer(**options) as consumer:
        assert len(await consumer.poll(timeout_s=20)) == 1
        await wait_until(lambda: _is_at(consumer, one_queue, 13))
        await consumer.commit({one_queue: 10})
        assert await consumer.committed(one_queue) == 10
        await consumer.commit()
        assert await consumer.committed(one_queue) == 13


async def _is_at(consumer, queue, queue_offset):
    return consumer.position(queue) == queue_offset


async def test_an_error_leaves_what_was_in_hand_to_the_next(one_queue, make_consumer):
    with pytest.raises(RuntimeError):  # noqa: PT012 - the end of the block is the matter.
        async with make_consumer(group="sorry") as consumer:
            await consumer.poll(3, timeout_s=20)
            await consumer.poll(3, timeout_s=20)
            raise RuntimeError("not done")
    async with make_consumer(group="sorry") as successor:
        assert bodies(await successor.poll(1, timeout_s=20)) == ["3"]


async def test_commits_are_the_applications_own(topic, one_queue, make_consumer, reader):
    async with make_consumer(group="own", auto_commit=False) as consumer:
        await consumer.poll(2, timeout_s=20)
        await consumer.poll(2, timeout_s=20)
        await consumer.commit({one_queue: 1})
        assert await consumer.committed(one_queue) == 1
        await consumer.commit()
        assert (await reader.stored_offsets("own", topic))[one_queue] == 4
        await consumer.poll(2, timeout_s=20)
        consumer.commit_nowait()

        async def is_stored():
            return await consumer.committed(one_queue) == 6

        await wait_until(is_stored)
        await consumer.poll(2, timeout_s=20)
        with pytest.raises(errors.ConsumerOffsetRefused) as caught:
            await consumer.commit({one_queue: 1000})
        assert set(caught.value.refused) == {one_queue}
        await consumer.commit({one_queue: 6})
    async with make_consumer(group="own", auto_commit=False) as successor:
        assert bodies(await successor.poll(1, timeout_s=20)) == ["6"]
        with pytest.raises(errors.IllegalArgument):
            await successor.commit({MessageQueue(topic, "nobody", 0): 1})


async def test_seeking(one_queue, make_consumer):
    async with make_consumer(group="seeker") as consumer:
        assert len(await consumer.poll(10, timeout_s=20)) == 10
        assert consumer.position(one_queue) == 10
        await consumer.seek(one_queue, 3)
        assert consumer.position(one_queue) == 3
        assert bodies(await consumer.poll(2, timeout_s=20)) == ["3", "4"]
        await consumer.seek(one_queue, "earliest")
        assert bodies(await consumer.poll(1, timeout_s=20)) == ["0"]
        await consumer.seek(one_queue, "latest")
        assert await consumer.poll(timeout_s=0.05) == []
        assert consumer.position(one_queue) == 10
        await consumer.seek(one_queue, datetime(2020, 1, 1, tzinfo=UTC))
        assert bodies(await consumer.poll(1, timeout_s=20)) == ["0"]
        with pytest.raises(errors.IllegalArgument):
            await consumer.seek(one_queue, -1)
        with pytest.raises(errors.IllegalArgument):
            await consumer.seek(MessageQueue("orders", "nobody", 0), 0)


async def test_a_paused_queue_keeps_still(topic, producer, one_queue, make_consumer):
    async with make_consumer(group="paused") as consumer:
        assert len(await consumer.poll(2, timeout_s=20)) == 2
        consumer.pause(one_queue)
        assert consumer.paused == {one_queue}
        other = next(q for q in sorted(consumer.assignment) if q != one_queue)
        await producer.send(Message(topic, b"other"), message_queue=other)
        assert bodies(await consumer.poll(timeout_s=20)) == ["other"]
        assert await consumer.poll(timeout_s=0.1) == []
        consumer.resume(one_queue)
        assert bodies(await consumer.poll(timeout_s=20)) == list("23456789")


async def test_reading_the_stored_offset_undoes_no_reset(
    topic, one_queue, cluster, make_consumer, reader, monkeypatch
):
    async with (
        make_consumer(group="asks", auto_commit=False) as consumer,
        ClusterClient(cluster.name_servers) as client,
    ):
        assert len(await consumer.poll(5, timeout_s=20)) == 5
        await consumer.commit()
        # The notice of the reset is late.
        monkeypatch.setattr(OwnedQueues, "forget", lambda *_: None)
        await client.reset_offsets("asks", topic, "earliest")
        assert await consumer.committed(one_queue) == 0
        assert bodies(await consumer.poll(1, timeout_s=20)) == ["5"]
        with pytest.raises(errors.ConsumerOffsetRefused, match="reset"):
            await consumer.commit()
        assert (await reader.stored_offsets("asks", topic))[one_queue] == 0


async def test_a_paused_queue_is_paused_still_after_its_offset_was_reset(
    topic, one_queue, cluster, make_consumer
):
    async with (
        make_consumer(group="kept-paused") as consumer,
        ClusterClient(cluster.name_servers) as client,
    ):
        assert bodies(await consumer.poll(2, timeout_s=20)) == ["0", "1"]
        consumer.pause(one_queue)
        assert await consumer.poll(timeout_s=0) == []  # The first two are done.
        polled = consumer._queue(one_queue)
        await client.reset_offsets("kept-paused", topic, "earliest")
        async with asyncio.timeout(60):
            while consumer._life.owned.find(one_queue) in {polled, None}:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert consumer.paused == {one_queue}
        assert await consumer.poll(timeout_s=0.1) == []
        consumer.resume(one_queue)
        assert bodies(await consumer.poll(timeout_s=20)) == list("0123456789")


async def test_assigned_queues_need_no_group(topic, one_queue, producer, make_consumer):
    async with (
        make_consumer(group="hand", subscriptions=None) as consumer,
        make_consumer(group="hand", subscriptions=None) as second,
    ):
        assert consumer.assignment == frozenset()
        await consumer.assign([one_queue])
        await second.assign([one_queue])
        assert consumer.assignment == {one_queue}
        assert bodies(await consumer.poll(timeout_s=20)) == list("0123456789")
        assert bodies(await second.poll(timeout_s=20)) == list("0123456789")
        other = MessageQueue(topic, one_queue.broker_name, 1 - one_queue.queue_id)
        await consumer.assign([other])
        assert consumer.assignment == {other}
        await producer.send(Message(topic, b"no", tag="b"), message_queue=other)
        await producer.send(Message(topic, b"yes", tag="a"), message_queue=other)
        await consumer.assign([other], filters={topic: "a"})
        # "no" may have been pulled while there was no filter yet.
        got = []
        async with asyncio.timeout(60):
            while "yes" not in got:
                got += bodies(await consumer.poll(timeout_s=20))
        await producer.send(Message(topic, b"no again", tag="b"), message_queue=other)
        await producer.send(Message(topic, b"yes again", tag="a"), message_queue=other)
        assert bodies(await poll_all(consumer, 1)) == ["yes again"]
    async with make_consumer() as member:
        with pytest.raises(errors.IllegalArgument):
            await member.assign([one_queue])


async def test_iteration_counts_message_by_message(topic, one_queue, make_consumer, reader):
    got = []
    async with make_consumer(group="each") as consumer:
        async for message in consumer:
            got.append(message.body.decode())
            if len(got) == 4:
                break
    assert got == list("0123")
    assert (await reader.stored_offsets("each", topic))[one_queue] == 4


async def test_iteration_ends_with_the_consumer(make_consumer):
    consumer = make_consumer(group="ends")
    await consumer.start()

    async def iterate():
        return [message async for message in consumer]

    task = asyncio.create_task(iterate())
    await asyncio.sleep(0.1)
    await consumer.close()

    assert await asyncio.wait_for(task, 60) == []
    with pytest.raises(errors.ClientNotRunning):
        await consumer.poll(timeout_s=20)


async def test_queues_are_handed_over_between_polls(topic, producer, make_consumer):
    async with make_consumer(group="shared") as first:
        await first.wait_assigned()
        await producer.send_batch([Message(topic, str(n).encode()) for n in range(400)])
        got = await first.poll(100, timeout_s=20)
        async with make_consumer(group="shared") as second:

            async def is_shared():
                # Polling is what tells that the messages before are done.
                got.extend(await first.poll(10, timeout_s=0.02))
                got.extend(await second.poll(10, timeout_s=0.02))
                return len(first.assignment) == len(second.assignment) == 2

            await wait_until(is_shared)
            async with asyncio.timeout(60):
                while len(got) < 400:
                    got += await first.poll(timeout_s=0.05)
                    got += await second.poll(timeout_s=0.05)

    assert Counter(bodies(got)) == Counter(map(str, range(400)))


async def test_flow_is_bounded_while_nobody_polls(topic, producer, make_consumer):
    settings = PullSettings(queue_message_count_max=50)
    await producer.send_batch([Message(topic, b"x", message_group="g") for _ in range(1000)])
    async with make_consumer(group="idle", settings=settings) as consumer:
        await consumer.wait_assigned()
        assert len(await consumer.poll(1, timeout_s=20)) == 1
        await asyncio.sleep(0.2)
        assert max(w.window.message_count for w in consumer._life.owned.in_work()) <= 50
        assert len(await poll_all(consumer, 999)) == 999


async def test_everybody_gets_everything_when_broadcasting(topic, producer, cluster, tmp_path):
    def make(name):
        return PullConsumer(
            cluster.name_servers,
            group="loud",
            subscriptions={topic: "*"},
            start="earliest",
            model="broadcasting",
            settings=replace(BRISK, local_offsets_path=tmp_path, instance_name=name),
        )

    await producer.send_batch([Message(topic, str(n).encode()) for n in range(100)])
    async with make("one") as first, make("two") as second:
        for consumer in (first, second):
            await consumer.wait_assigned()
            assert len(await poll_all(consumer, 100)) == 100
            assert len(consumer.assignment) == 4
        with pytest.raises(errors.OffsetFileInUse):
            await make("one").start()
    await producer.send(Message(topic, b"after"))
    async with make("one") as successor:
        assert bodies(await successor.poll(timeout_s=20)) == ["after"]
    assert len(list(tmp_path.rglob("offsets.json"))) == 2


async def test_nonsense_is_refused(make_consumer):
    with pytest.raises(errors.IllegalArgument):
        make_consumer(model="shouting")
    consumer = make_consumer()
    with pytest.raises(errors.ClientNotRunning):
        await consumer.poll(timeout_s=20)
    with pytest.raises(errors.ClientNotRunning):
        await consumer.commit()
    with pytest.raises(errors.IllegalArgument):
        await consumer.poll(0)
    assert consumer.assignment == consumer.paused == frozenset()
    await consumer.close()


@pytest.mark.parametrize("wrong", [-1, 1 << 63, "7", None, 1.5])
async def test_no_offset_is_refused_and_harms_nothing(make_consumer, one_queue, wrong):
    async with make_consumer(group="strict", auto_commit=False) as consumer:
        await poll_all(consumer, 10)
        with pytest.raises(errors.IllegalArgument):
            await consumer.commit({one_queue: wrong})
        with pytest.raises(errors.IllegalArgument):
            await consumer.seek(one_queue, wrong)
        await consumer.commit()

        assert await consumer.committed(one_queue) == 10


@pytest.mark.parametrize("wrong", [("no-broker", 0), ("broker-a", 99), ("broker-a", -1)])
async def test_assigning_a_queue_that_does_not_exist_is_an_error(cluster, topic, one_queue, wrong):
    consumer = PullConsumer(cluster.name_servers, group="by-hand", start="earliest")
    async with consumer, asyncio.timeout(60):
        with pytest.raises(errors.QueueNotFound, match=f"{wrong[0]}#{wrong[1]}"):
            await consumer.assign([one_queue, MessageQueue(topic, *wrong)])
        await consumer.assign([one_queue])
        await poll_all(consumer, 10)
