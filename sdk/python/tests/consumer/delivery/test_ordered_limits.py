"""How often a message that is consumed in order is tried, by the limit of its group."""

import asyncio

import pytest

from ariane_sdk import MessageQueue, PushSettings
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.message_returns import EXHAUSTED, REJECTED
from ariane_sdk.consumer.delivery.ordered_work import OrderedQueueWork
from ariane_sdk.consumer.delivery.queue_work import ListenerParts
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.message import ReceivedMessage

QUEUE = MessageQueue("orders", "broker-a", 0)


class Stub(ReceivedMessage):
    """A message with nothing but a place."""

    queue_offset = size_bytes = None

    def __init__(self, queue_offset):
        self._header = (0,) * 17
        self.queue_offset = queue_offset
        self.size_bytes = 1


class Held:
    """Locks that hold."""

    def holds(self, _queue):
        return True


class Scene:
    """A listener that fails on one message, and a broker that takes dead letters."""

    def __init__(self, attempts_max, fail):
        self.limit = attempts_max
        self.fail = fail
        self.given = []
        self.attempts = []
        self.stored = []
        self.dead = []
        self.deaf = 0

    def new_return_id(self):
        return "r"

    async def attempts_max(self, queue):
        assert queue == QUEUE
        return self.limit

    async def send_back(self, failed, _queue, *, return_id, local_attempts, reason):
        assert return_id == "r"
        if self.deaf:
            self.deaf -= 1
            return failed.messages
        self.dead += [(each.queue_offset, local_attempts, reason) for each in failed.messages]
        return []

    async def deliver(self, messages):
        self.given.append([message.queue_offset for message in messages])
        self.attempts.append([message.attempts for message in messages])
        self.stored.append(self.work.done_offset)
        self.fail(messages)

    async def run(self, count, batch_size):
        work = self.work = OrderedQueueWork(
            QUEUE,
            0,
            ListenerParts(
                deliver=self.deliver,
                batch_size=batch_size,
                settings=PushSettings(suspend_s=0.001),
                holding=Holding("g"),
            ),
            on_room=lambda: None,
            locks=Held(),
            returns=self,
        )
        work.window.put([Stub(place) for place in range(count)], count)
        work.start()
        work.wake()
        async with asyncio.timeout(60):
            while work.done_offset < count:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        assert await work.release(1) == count
        return self


def whole(messages):
    """Fail on a batch with message 1 without saying which."""
    if any(message.queue_offset == 1 for message in messages):
        raise ValueError("one of them")


def named(messages):
    """Say that message 1 failed; what is before it is done."""
    bad = [message for message in messages if message.queue_offset == 1]
    if bad:
        raise MessagesFailed(bad, "this one")


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_alone_it_is_tried_once_and_as_often_again_as_allowed(limit):
    scene = await Scene(limit, whole).run(3, batch_size=1)
    assert scene.given == [[0], *([1],) * (limit + 1), [2]]
    assert scene.dead == [(1, limit, EXHAUSTED)]


@pytest.mark.parametrize("limit", [0, 2])
async def test_one_that_the_listener_names_too(limit):
    scene = await Scene(limit, named).run(3, batch_size=3)
    assert scene.dead == [(1, limit, EXHAUSTED)]
    assert sum(1 in given for given in scene.given) == limit + 1
    assert sum(0 in given for given in scene.given) == 1


async def test_without_repetitions_a_whole_batch_comes_once_more_one_by_one():
    scene = await Scene(0, whole).run(3, batch_size=3)
    assert scene.given == [[0, 1, 2], [0], [1], [2]]
    assert scene.dead == [(1, 0, EXHAUSTED)]


async def test_the_last_time_a_batch_comes_one_by_one():
    scene = await Scene(2, whole).run(3, batch_size=3)
    assert scene.given == [[0, 1, 2], [0, 1, 2], [0], [1], [1], [1], [2]]
    assert scene.dead == [(1, 2, EXHAUSTED)]


async def test_a_rejected_one_is_not_tried_again():
    def reject(messages):
        bad = [message for message in messages if message.queue_offset == 1]
        if bad:
            raise MessagesFailed(bad, "never", rejected=True)

    scene = await Scene(5, reject).run(3, batch_size=3)
    assert scene.dead == [(1, 0, REJECTED)]


async def test_a_message_that_cannot_become_a_dead_letter_is_not_passed():
    scene = Scene(0, whole)
    scene.deaf = 2
    await scene.run(3, batch_size=1)
    assert scene.given == [[0], [1], [1], [1], [2]]
    assert scene.dead == [(1, 2, EXHAUSTED)]


@pytest.mark.parametrize(
    ("fail", "together", "attempts_behind"),
    [(whole, [[0, 1, 2, 3], [0, 1, 2, 3], [0]], 2), (named, [[0, 1, 2, 3], [1, 2, 3]], 0)],
)
async def test_from_its_second_failure_on_a_batch_comes_one_by_one(fail, together, attempts_behind):
    failures_left = 4

    def fail_for_a_while(messages):
        nonlocal failures_left
        if failures_left and any(message.queue_offset == 1 for message in messages):
            failures_left -= 1
            fail(messages)

    scene = await Scene(2**31 - 1, fail_for_a_while).run(4, batch_size=4)
    assert scene.given == [*together, [1], [1], [1], [2], [3]]
    assert scene.attempts[-3:] == [[4], [attempts_behind], [attempts_behind]]
    assert scene.stored[-3:] == [1, 2, 3], "what is done stays done, whatever fails behind it"
    assert scene.dead == []
