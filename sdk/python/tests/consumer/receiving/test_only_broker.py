"""Where there is one broker: asked without a task, and nothing of what it gives is lost."""

import asyncio
import sys
from collections import Counter

import grpc
import pytest

from ariane_sdk import ReceiveConsumer
from ariane_sdk.consumer.receiving.asking import Asking
from ariane_sdk.errors import CallError, ClientNotRunning
from sdk.python.tests.consumer.receiving.scripted_receiving import receiving_broker

OF_CLIENT = ("ariane_sdk/", "ariane_wire/client/")
CALLS_MAX = 125
PAIRS = 20


@pytest.fixture
async def broker(world):
    async with receiving_broker(world, 100) as one:
        yield one


@pytest.fixture
async def consumer(world, broker):
    subscriptions = {"jobs": "*"}
    async with ReceiveConsumer(
        world.name_servers, group="g", subscriptions=subscriptions
    ) as consumer:
        await consumer.receive_batch(
            1, timeout_s=60
        )  # The route is known, and the member attached.
        yield consumer


@pytest.fixture
def asked(monkeypatch):
    """How often all brokers were asked, each in a task."""
    batches, times = Asking.batches, []

    def counted(asking):
        times.append(1)
        return batches(asking)

    monkeypatch.setattr(Asking, "batches", counted)
    return times


def numbers(batch):
    return [int(message.body) for message in batch]


async def test_a_lone_message_takes_few_calls_of_the_client(consumer):
    """Counted in calls of Python, never timed: a bound for changes to come, as the broker's."""
    calls = Counter()

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and any(package in path for package in OF_CLIENT):
            calls[path.rpartition("/")[2]] += 1

    for _ in range(PAIRS):
        [message] = await consumer.receive_batch(1, timeout_s=60)
        await consumer.ack(message)
    sys.setprofile(note)
    try:
        for _ in range(PAIRS):
            [message] = await consumer.receive_batch(1, timeout_s=60)
            await consumer.ack(message)
    finally:
        sys.setprofile(None)
    assert calls.total() / PAIRS < CALLS_MAX, calls


@pytest.mark.parametrize("timeout_s", [60, 5])
async def test_the_only_broker_is_asked_without_a_task(consumer, asked, timeout_s):
    got = [number for _ in range(20) for number in numbers(await consumer.receive_batch(3))]
    assert got == list(range(1, 61))
    tasks = len(asyncio.all_tasks())
    [message] = await consumer.receive_batch(1, timeout_s=timeout_s)
    assert message.body == b"61"
    assert len(asyncio.all_tasks()) == tasks
    assert not asked


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


async def test_a_held_call_without_messages_is_followed_by_another(consumer, broker, asked):
    broker.left.clear()
    waiting = asyncio.create_task(consumer.receive_batch(2, timeout_s=60))
    await broker.held.wait()
    broker.goes_on.set()
    while broker.calls < 5:  # noqa: ASYNC110 - it is the other end.
        await asyncio.sleep(0)
    broker.left.append(7)
    assert numbers(await waiting) == [7]
    assert not asked


async def test_a_broker_that_is_away_for_a_moment_is_asked_again(consumer, broker, asked):
    broker.refusals.append(grpc.StatusCode.UNAVAILABLE)
    assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [1]
    assert len(asked) == 1


async def test_a_refusal_is_told_at_once(consumer, broker, asked):
    broker.refusals.append(grpc.StatusCode.PERMISSION_DENIED)
    with pytest.raises(CallError):
        await consumer.receive_batch(1, timeout_s=60)
    assert not asked


async def test_a_second_broker_is_asked_once_the_route_has_it(world, consumer, broker, asked):
    async with receiving_broker(world, 0):
        (second,) = world.name_server.routes["jobs"].brokers
        addresses = {"broker-a": consumer._joined.only().read_address}
        world.name_server.set_route("jobs", {**addresses, "broker-b": second.addresses[0]})
        await consumer._session.routes.settle_groups("jobs")  # Asks the name server now.
        assert numbers(await consumer.receive_batch(1, timeout_s=60)) == [1]
    assert len(asked) == 1


async def test_no_broker_is_asked_to_hold_for_less_than_no_time(consumer, monkeypatch):
    """The wait may be over when the failure of the only broker's call is seen."""
    seconds = []

    async def failed_late(*_):
        consumer._clock = AheadOf(consumer._clock)

    async def none_of_any(count_max, timeout_s):
        seconds.append(timeout_s)
        return []

    monkeypatch.setattr(consumer._member.only_broker, "batch", failed_late)
    monkeypatch.setattr(consumer, "_batch_of_any", none_of_any)
    assert await consumer.receive_batch(1, timeout_s=0.5) == []
    assert seconds == [0]


class AheadOf:
    """A clock that is a minute ahead of another."""

    def __init__(self, clock):
        self._clock = clock

    def monotonic_s(self):
        return self._clock.monotonic_s() + 60
