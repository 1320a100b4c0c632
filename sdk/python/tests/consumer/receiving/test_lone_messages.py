"""Messages taken one at a time: no call has a task, and nothing that one brings is lost."""

import asyncio
import sys
from collections import Counter

import grpc
import pytest

from ariane_sdk import ReceiveConsumer
from ariane_sdk.errors import CallError, ClientNotRunning
from sdk.python.tests.consumer.receiving.scripted_receiving import receiving_broker

OF_CLIENT = ("ariane_sdk/", "ariane_wire/client/")
CALLS_MAX = 115
ANOTHER_BROKER_MAX = 15
PAIRS = 20
WAYS = {
    "plain": {},
    "kept": {"keep_invisible": True},
    "from-newest": {"from_oldest": False},
    "two-brokers": {},
}


@pytest.fixture
async def broker(world):
    async with receiving_broker(world, 100) as one:
        yield one


async def started(world, **options):
    """A consumer that knows the route, and is attached."""
    consumer = ReceiveConsumer(
        world.name_servers, group="g", subscriptions={"jobs": "*"}, **options
    )
    await consumer.start()
    await consumer.receive_batch(1, timeout_s=60)
    return consumer


@pytest.fixture
async def consumer(world, broker):
    one = await started(world)
    yield one
    await one.close()


@pytest.fixture(params=WAYS)
async def any_consumer(request, world, broker):
    async with receiving_broker(world, 0, "broker-b") as second:
        if request.param != "two-brokers":
            world.name_server.set_route("jobs", {"broker-a": broker.address})
        one = await started(world, **WAYS[request.param])
        yield one
        second.goes_on.set()
        await one.close()


@pytest.fixture
def calls_max(any_consumer, request):
    is_of_two = "two-brokers" in request.node.name
    return CALLS_MAX + (ANOTHER_BROKER_MAX if is_of_two else 0)


def numbers(batch):
    return [int(message.body) for message in batch]


async def test_a_lone_message_takes_few_calls_of_the_client(any_consumer, calls_max):
    """Counted in calls of Python, never timed: a bound for changes to come, as the broker's."""
    calls = Counter()

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and any(package in path for package in OF_CLIENT):
            calls[path.rpartition("/")[2]] += 1

    for _ in range(PAIRS):
        [message] = await any_consumer.receive_batch(1, timeout_s=60)
        await any_consumer.ack(message)
    sys.setprofile(note)
    try:
        for _ in range(PAIRS):
            [message] = await any_consumer.receive_batch(1, timeout_s=60)
            await any_consumer.ack(message)
    finally:
        sys.setprofile(None)
    assert calls.total() / PAIRS < calls_max, calls


async def test_no_message_takes_a_task(any_consumer, monkeypatch):
    tasks, create_task = [], asyncio.create_task

    def noted(coroutine, **options):
        tasks.append(options.get("name"))
        return create_task(coroutine, **options)

    await any_consumer.receive_batch(3, timeout_s=60)
    monkeypatch.setattr(asyncio, "create_task", noted)
    for timeout_s in (60, 5):
        assert len(await any_consumer.receive_batch(3, timeout_s=timeout_s)) == 3
    # Receipts are reported by one task for all answers of a moment.
    assert set(tasks) <= {"ariane-keep-invisible"}
    assert len(tasks) <= 1


async def test_all_messages_come_in_their_order(any_consumer):
    got = [number for _ in range(20) for number in numbers(await any_consumer.receive_batch(3))]
    assert got == list(range(1, 61))


async def test_messages_of_a_call_that_was_given_up_come_next(consumer, broker):
    broker.left.clear()
    waiting = asyncio.create_task(consumer.receive_batch(2, timeout_s=60))
    await broker.held.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    broker.left += [7, 8]
    broker.goes_on.set()
    assert numbers(await consumer.receive_batch(5, timeout_s=60)) == [7, 8]
    assert broker.calls == 2


async def test_messages_that_come_after_the_wait_come_next(consumer, broker):
    broker.left.clear()
    assert await consumer.receive_batch(2, timeout_s=0.05) == []
    broker.left += [7, 8]
    broker.goes_on.set()
    assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [7]
    assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [8]
    assert broker.calls == 2


async def test_a_closed_consumer_ends_the_wait(consumer, broker):
    broker.left.clear()
    waiting = [asyncio.create_task(consumer.receive_batch(2, timeout_s=60)) for _ in range(2)]
    await broker.held.wait()
    await consumer.close()
    for each in waiting:
        with pytest.raises(ClientNotRunning):
            await each


async def test_a_held_call_without_messages_is_followed_by_another(consumer, broker):
    broker.left.clear()
    waiting = asyncio.create_task(consumer.receive_batch(2, timeout_s=60))
    await broker.held.wait()
    broker.goes_on.set()
    while broker.calls < 5:  # noqa: ASYNC110 - it is the other end.
        await asyncio.sleep(0)
    broker.left.append(7)
    assert numbers(await waiting) == [7]


async def test_a_broker_that_is_away_for_a_moment_is_asked_again(consumer, broker):
    broker.refusals.append(grpc.StatusCode.UNAVAILABLE)
    assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [1]


async def test_a_refusal_is_told_at_once(consumer, broker):
    broker.refusals.append(grpc.StatusCode.PERMISSION_DENIED)
    with pytest.raises(CallError):
        await consumer.receive_batch(1, timeout_s=60)
    assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [1]


async def test_a_second_broker_is_asked_once_the_route_has_it(world, consumer, broker):
    broker.left.clear()
    async with receiving_broker(world, 3, "broker-b"):
        await consumer._session.routes.settle_groups("jobs")  # Asks the name server now.
        assert numbers(await consumer.receive_batch(3, timeout_s=60)) == [0, 1, 2]


async def test_a_call_to_another_broker_is_not_made_again_for_each_message(world, broker):
    async with receiving_broker(world, 0, "broker-b") as second:
        consumer = await started(world)
        for _ in range(5):
            await consumer.receive_batch(1, timeout_s=60)
        assert second.calls == 1
        second.left.append(7)
        second.goes_on.set()
        broker.left.clear()
        assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [7]
        await consumer.close()


async def test_receipts_of_lone_messages_are_reported(world, broker):
    consumer = await started(world, keep_invisible=True, invisible_s=1)
    messages = [await consumer.receive_batch(1, timeout_s=60) for _ in range(3)]
    async with asyncio.timeout(60):
        while broker.kept < 1 + len(messages):  # noqa: ASYNC110 - it is the other end.
            await asyncio.sleep(0.01)
    await consumer.close()
