"""Messages that a listener fails on: sent back, delivered again, given up."""

import asyncio
import itertools
import threading
from collections import Counter
from dataclasses import replace

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_record.names import dead_letter_topic
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    errors,
    sync,
)
from ariane_sdk.consumer.delivery.message_returns import MessageReturns
from ariane_sdk.errors import MessagesFailed

_numbers = itertools.count()

BRISK = PushSettings(
    rebalance_gap_s_min=0.05,
    handover_s=0.1,
    offset_store_interval_s=0.2,
    redelivery_delay_s_min=0.02,
    suspend_s=0.02,
    hold_s=2.0,
)


class Clerk:
    """A listener that fails as told, and writes down what it was given and what it has done."""

    def __init__(self, fails=lambda _message: False):
        self.fails = fails
        self.tries = Counter()
        self.seen = []
        self.done = []
        self.changed = asyncio.Condition()

    async def __call__(self, messages):
        try:
            failed = [message for message in messages if self.judge(message)]
        finally:
            async with self.changed:
                self.changed.notify_all()
        if failed:
            raise MessagesFailed(failed, "not to my liking")

    def judge(self, message):
        self.tries[message.body] += 1
        self.seen.append(message)
        if self.fails(message):
            return True
        self.done.append(message.body)
        return False

    async def wait(self, condition):
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(condition)


@pytest.fixture
async def place(cluster):
    """A topic of two queues, and a group that waits some milliseconds between tries."""
    number = next(_numbers)
    topic, group = f"failing-{number}", f"failing-{number}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic, queue_count=2)
    policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=[Duration(nanos=20_000_000)]))
    wanted = group_pb.ConsumerGroup(
        consumer_group=group,
        consume_enabled=True,
        attempts_max=3,
        ordered_attempts_max=3,
        retry_policy=policy,
    )
    for broker in cluster.brokers:
        async with aio.insecure_channel(broker.address) as channel:
            await GroupServiceStub(channel).CreateConsumerGroup(
                group_pb.CreateConsumerGroupRequest(group=wanted)
            )
    return topic, group


@pytest.fixture
def make_consumer(cluster, place):
    topic, group = place

    def make(listener, **arguments):
        options = {"group": group, "start": "earliest", "settings": BRISK} | arguments
        return PushConsumer(
            cluster.name_servers, subscriptions={topic: "*"}, listener=listener, **options
        )

    return make


@pytest.fixture
async def dead_letters_of(cluster):
    """The dead letters of a group, once there are so many."""
    async with QueueReader(cluster.name_servers) as reader:

        async def wait(group, count):
            async with asyncio.timeout(60):
                while True:
                    letters = [letter async for letter in read(reader, dead_letter_topic(group))]
                    if len(letters) >= count:
                        return letters
                    await asyncio.sleep(0.05)

        yield wait


async def read(reader, topic):
    try:
        bounds = await reader.bounds(topic)
    except errors.RouteNotFound:
        return
    for queue, (begin, end) in bounds.items():
        async for columns in reader.read_range(queue, begin, end):
            for number in range(len(columns)):
                yield columns.message(number)


@pytest.fixture
async def send(cluster, place):
    async with Producer(cluster.name_servers) as producer:

        async def send(*bodies, **fields):
            messages = [Message(place[0], body, **fields) for body in bodies]
            return await producer.send_batch(messages)

        yield send


async def test_a_failed_message_comes_again_and_the_rest_goes_on(place, send, make_consumer):
    clerk = Clerk(lambda message: message.body == b"bad" and message.attempts < 2)
    await send(b"bad", *(b"%d" % number for number in range(20)), message_group="one", tag="red")
    async with make_consumer(clerk) as consumer:
        await consumer.wait_assigned()
        assert {queue.topic for queue in consumer.assignment} == {place[0]}
        await clerk.wait(lambda: len(clerk.done) == 21)
    assert clerk.tries[b"bad"] == 3
    assert max(clerk.tries[body] for body in clerk.done if body != b"bad") == 1
    last = [message for message in clerk.seen if message.body == b"bad"][-1]
    assert (last.topic, last.tag, last.attempts) == (place[0], "red", 2)
    assert last.message_group == "one"


async def test_a_good_message_beside_a_hopeless_one_is_no_dead_letter(
    cluster, place, make_consumer, dead_letters_of
):
    """A listener that does not say with what it failed has failed with the whole batch."""
    topic, group = place
    done, together = set(), []

    async def listen(messages):
        together.append(len(messages))
        if any(message.body == b"hopeless" for message in messages):
            raise ValueError("one of them")
        done.update(message.body for message in messages)

    bodies = [b"good-%d" % number for number in range(10)]
    async with Producer(cluster.name_servers) as producer:
        messages = [Message(topic, body) for body in [*bodies[:5], b"hopeless", *bodies[5:]]]
        await producer.send_batch(messages)
    async with make_consumer(listen, batch_size=32):
        (letter,) = await dead_letters_of(group, 1)
    assert letter.body == b"hopeless"
    assert done == set(bodies)
    assert max(together) == len(bodies) + 1


async def test_a_hopeless_message_becomes_a_dead_letter_after_its_last_repetition(
    place, send, make_consumer, dead_letters_of
):
    clerk = Clerk(lambda message: message.body == b"bad")
    await send(b"bad", b"good")
    async with make_consumer(clerk):
        letters = await dead_letters_of(place[1], 1)
    assert clerk.tries == {b"bad": 4, b"good": 1}
    (letter,) = letters
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == place[0]
    assert letter.properties["LAST_ERROR"] == "not to my liking"
    assert letter.attempts == 4


async def test_an_exception_fails_the_whole_delivery(place, send, make_consumer, dead_letters_of):
    async def fail(messages):
        raise LookupError("no account")

    await send(b"a", b"b", message_group="one")
    async with make_consumer(fail):
        letters = await dead_letters_of(place[1], 2)
    assert sorted(letter.body for letter in letters) == [b"a", b"b"]
    assert {letter.properties["LAST_ERROR"] for letter in letters} == {"LookupError: no account"}


async def test_a_rejected_message_is_tried_once(place, send, make_consumer, dead_letters_of):
    tries = Counter()

    async def reject(messages):
        tries.update(message.body for message in messages)
        raise MessagesFailed([m for m in messages if m.body == b"bad"], "broken", rejected=True)

    await send(b"bad")
    async with make_consumer(reject):
        (letter,) = await dead_letters_of(place[1], 1)
    assert tries[b"bad"] == 1
    assert letter.properties["DLQ_REASON"] == "REJECTED"


async def test_a_message_that_cannot_be_sent_back_is_tried_here_and_not_passed(
    place, send, make_consumer, monkeypatch, cluster
):
    clerk = Clerk(lambda message: message.body == b"bad" and clerk.tries[b"bad"] < 4)

    async def refuse(self, failed, queue, **options):
        async with ClusterClient(cluster.name_servers) as client:
            lags = await client.consumer_lag(place[1])
        assert sum(lag.message_count for lag in lags if lag.message_queue == queue) >= 1
        return list(failed.messages)

    monkeypatch.setattr(MessageReturns, "send_back", refuse)
    await send(b"bad", b"good", message_group="one")
    async with make_consumer(clerk):
        await clerk.wait(lambda: sorted(clerk.done) == [b"bad", b"good"])
    assert clerk.tries == {b"bad": 4, b"good": 1}
    assert {message.body: message.attempts for message in clerk.seen} == {b"bad": 3, b"good": 0}


async def test_a_plain_listener_fails_in_the_same_way(cluster, place, send):
    tries, done = Counter(), threading.Event()

    def listen(messages):
        failed = []
        for message in messages:
            tries[message.body] += 1
            if message.body == b"bad" and message.attempts < 2:
                failed.append(message)
            elif message.body == b"bad":
                done.set()
        if failed:
            raise MessagesFailed(failed)

    await send(b"bad", *(b"%d" % number for number in range(10)))
    with sync.PushConsumer(
        cluster.name_servers,
        group=place[1],
        subscriptions={place[0]: "*"},
        listener=listen,
        start="earliest",
        settings=BRISK,
    ):
        assert await asyncio.to_thread(done.wait, 20)
    assert tries[b"bad"] == 3


async def test_in_order_a_hopeless_message_holds_up_the_rest_until_its_tries_are_over(
    place, send, make_consumer, dead_letters_of
):
    clerk = Clerk()

    async def listen(messages):
        for message in messages:
            clerk.tries[message.body] += 1
            if message.body == b"bad":
                raise RuntimeError("no")
            clerk.done.append(message.body)
        async with clerk.changed:
            clerk.changed.notify_all()

    bodies = [b"1", b"2", b"bad", b"4", b"5", b"6"]
    await send(*bodies, message_group="one")
    async with make_consumer(listen, ordered=True):
        (letter,) = await dead_letters_of(place[1], 1)
        await clerk.wait(lambda: {b"4", b"5", b"6"} <= set(clerk.done))
    assert letter.body == b"bad"
    assert letter.properties["DLQ_REASON"] == "ATTEMPTS_EXHAUSTED"
    # In order, and nothing behind the bad one before it is given up.
    firsts = list(dict.fromkeys(clerk.done))
    assert firsts == [b"1", b"2", b"4", b"5", b"6"]
    assert 4 <= clerk.tries[b"bad"] <= 8
    assert clerk.tries[b"6"] == 1


async def test_members_with_and_without_retries_agree(place, make_consumer, cluster):
    async with (
        make_consumer(Clerk()),
        PullConsumer(
            cluster.name_servers,
            group=place[1],
            subscriptions={place[0]: "*"},
            settings=PullSettings(handover_s=0.1),
        ) as puller,
    ):
        await puller.wait_assigned()


@pytest.mark.parametrize("message_trace", [False, True])
async def test_a_message_whose_listener_returned_a_value_has_failed(
    cluster, place, make_consumer, message_trace
):
    topic, _ = place
    tries = asyncio.Queue()

    async def listen(messages):
        tries.put_nowait(messages[0].attempts)
        return "RECONSUME_LATER" if messages[0].attempts == 0 else None

    settings = replace(BRISK, message_trace=message_trace)
    async with (
        Producer(cluster.name_servers) as producer,
        make_consumer(listen, settings=settings),
        asyncio.timeout(60),
    ):
        await producer.send(Message(topic, b"one"))
        assert [await tries.get(), await tries.get()] == [0, 1]
