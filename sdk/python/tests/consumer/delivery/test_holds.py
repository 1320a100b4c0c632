"""A listener says when it goes on; the application pauses a consumer; a breaker opens."""

import asyncio
import itertools
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.client_question_pb2 import QueueHold
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_sdk import Breaker, ClusterClient, Message, MessageQueue, Producer, PushConsumer
from ariane_sdk.client.hold import keys_of
from ariane_sdk.consumer.delivery.breaker import BrokenDelivery
from ariane_sdk.errors import ConsumptionHeld, IllegalArgument, MessagesFailed
from sdk.python.tests.consumer.push_side import BRISK, wait_until

_numbers = itertools.count()


@pytest.fixture
async def place(cluster):
    """A topic with a queue at each broker, and a group whose own waits are an hour."""
    name = f"held-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=1)
    policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=[Duration(seconds=3600)]))
    wanted = group_pb.ConsumerGroup(
        consumer_group=name, consume_enabled=True, attempts_max=3, retry_policy=policy
    )
    for broker in cluster.brokers:
        async with aio.insecure_channel(broker.address) as channel:
            request = group_pb.CreateConsumerGroupRequest(group=wanted)
            await GroupServiceStub(channel).CreateConsumerGroup(request)
    return name


@pytest.fixture
def make_consumer(cluster, place):
    def make(listener, **arguments):
        options = {"group": place, "start": "earliest", "settings": BRISK} | arguments
        return PushConsumer(
            cluster.name_servers, subscriptions={place: "*"}, listener=listener, **options
        )

    return make


@pytest.fixture
def send(cluster, place):
    async def send(count):
        async with Producer(cluster.name_servers) as producer:
            for broker, number in itertools.product("ab", range(count)):
                queue = MessageQueue(place, f"broker-{broker}", 0)
                await producer.send(Message(place, b"%d" % number), message_queue=queue)

    return send


@pytest.fixture
def held_as(cluster, place):
    """The holds of the group's member, once there is one for a reason."""

    async def wait(reason):
        async with ClusterClient(cluster.name_servers) as client, asyncio.timeout(60):
            while True:
                holds = [hold for one in await client.list_members(place) for hold in one.holds]
                if reason in {hold.reason for hold in holds}:
                    return holds
                await asyncio.sleep(0.05)

    return wait


class Floor:
    """Notes what is done, by queue, and with how many attempts."""

    def __init__(self):
        self.done = defaultdict(list)
        self.attempts = set()
        self.judge = lambda _messages: None

    async def __call__(self, messages):
        self.judge(messages)
        self.attempts |= {message.attempts for message in messages}
        self.done[messages[0].message_queue.broker_name] += [int(each.body) for each in messages]

    @property
    def count(self):
        return sum(map(len, self.done.values()))


async def test_a_failed_message_comes_again_when_the_listener_says(make_consumer, send, place):
    await send(1)
    floor = Floor()

    def judge(messages):
        if not messages[0].attempts:
            raise MessagesFailed(messages, "soon", delay_s=0.01)

    floor.judge = judge
    async with make_consumer(floor):
        await wait_until(lambda: floor.count == 2)
    assert floor.attempts == {1}


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_queue_is_held_and_the_others_go_on(make_consumer, send, held_as, place, ordered):
    await send(5)
    floor = Floor()

    def judge(messages):
        if messages[0].message_queue.broker_name == "broker-a":
            raise ConsumptionHeld(600, "bank is down")

    floor.judge = judge
    async with make_consumer(floor, ordered=ordered):
        await wait_until(lambda: floor.done["broker-b"] == [0, 1, 2, 3, 4])
        (hold,) = await held_as("requested")
    assert hold.message_queue == MessageQueue(place, "broker-a", 0)
    assert (hold.cause, 500 < hold.remaining_s <= 600) == ("bank is down", True)
    assert "broker-a" not in floor.done
    floor.judge = lambda _messages: None
    async with make_consumer(floor, ordered=ordered):
        await wait_until(lambda: floor.count == 10)
    assert floor.done["broker-a"] == [0, 1, 2, 3, 4]
    assert floor.attempts == {0}


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_dependency_that_is_down_costs_no_attempt_and_no_order(
    make_consumer, send, ordered
):
    await send(20)
    floor, raised = Floor(), []

    def judge(messages):
        if len(raised) < 8:
            raised.append(messages)
            raise ConsumptionHeld(0.02, "bank is down", all_queues=True, messages=messages[-1:])

    floor.judge = judge

    def known(broker):
        # Those that the listener did not name were done when it raised.
        said = [
            int(message.body)
            for messages in raised
            for message in messages[:-1]
            if message.message_queue.broker_name == broker
        ]
        return sorted({*floor.done[broker], *said})

    async with make_consumer(floor, ordered=ordered, batch_size=3):
        await wait_until(lambda: known("broker-a") == known("broker-b") == list(range(20)))
    assert floor.attempts == {0}
    assert all(numbers == sorted(numbers) for numbers in floor.done.values())


async def test_a_paused_consumer_keeps_its_queues_and_gets_nothing(
    make_consumer, send, held_as, place
):
    floor = Floor()
    one = MessageQueue(place, "broker-a", 0)
    async with make_consumer(floor) as consumer:
        await consumer.wait_assigned()
        consumer.pause()
        await send(3)
        (hold,) = await held_as("paused")
        assert (hold.message_queue, hold.remaining_s) == (None, None)
        assert (floor.count, len(consumer.assignment)) == (0, 2)
        consumer.pause(one)
        consumer.resume()
        await wait_until(lambda: floor.count == 6)
        consumer.pause(one)
        await send(3)
        await wait_until(lambda: len(floor.done["broker-b"]) == 6)
        assert len(floor.done["broker-a"]) == 3
        with pytest.raises(IllegalArgument):
            consumer.pause(MessageQueue(place, "broker-a", 7))
        consumer.resume(one)
        await wait_until(lambda: floor.count == 12)


async def test_a_breaker_opens_and_is_seen(make_consumer, send, held_as):
    await send(20)
    floor = Floor()

    def judge(_messages):
        raise ValueError("bank is down")

    floor.judge = judge
    settings = replace(BRISK, breaker=Breaker(failure_ratio=1.0, calls=3, hold_s=600))
    async with make_consumer(floor, batch_size=1, settings=settings):
        (hold,) = await held_as("breaker_open")
    assert hold.message_queue is None
    assert "bank is down" in hold.cause


async def test_a_breaker_opens_at_its_ratio_and_a_success_ends_its_trial():
    opened, outcomes = [], iter("....xx.xxxx.xx..")

    async def deliver(_messages):
        outcome = next(outcomes)
        if outcome == "x":
            raise ValueError("no")

    breaker = Breaker(failure_ratio=0.75, calls=4, hold_s=9)
    broken = BrokenDelivery(
        deliver, breaker, open_for=lambda seconds, cause: opened.append((call, seconds, cause))
    )
    for call in range(16):  # noqa: B007 - the function above notes it
        with suppress(ValueError):
            await broken.deliver([])
    # At the eighth call, three of the last four failed; the next ones are on trial.
    assert [(at, seconds) for at, seconds, _ in opened] == [(7, 9), (8, 9), (9, 9), (10, 9)]
    assert "3 of 4 calls" in opened[0][2]
    with pytest.raises(IllegalArgument, match="failure_ratio"):
        Breaker(failure_ratio=0)
    with pytest.raises(IllegalArgument, match="hold_s"):
        ConsumptionHeld(-1)


def test_brokers_are_told_when_the_tries_of_a_held_message_have_doubled():
    keys = [keys_of([QueueHold(topic="t", attempts=count)]) for count in range(1, 9)]
    assert [len({*keys[:count]}) for count in range(1, 9)] == [1, 2, 2, 3, 3, 3, 3, 4]
