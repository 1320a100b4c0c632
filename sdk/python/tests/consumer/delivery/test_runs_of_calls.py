"""Several calls of a listener from what was taken at once: each counts for itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from ariane_sdk import MessageQueue, PushSettings
from ariane_sdk.client.caution import Caution
from ariane_sdk.consumer.delivery.hand_out import DeliveryCare, DeliveryGate
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.message_returns import PassingOver
from ariane_sdk.consumer.delivery.queue_work import RUN_MESSAGES, ListenerParts, QueueWork

QUEUE = MessageQueue("orders", "broker-a", 0)


@dataclass
class Placed:
    """A message with nothing but a place."""

    queue_offset: int
    size_bytes: int = 1
    topic: str = "orders"
    _header: tuple[int, ...] = (0,) * 17


class Listener:
    """Writes down what it gets, and stops where it is told to."""

    def __init__(self, *, holds_at: int | None = None) -> None:
        self.calls: list[list[int]] = []
        self.holds_at = holds_at
        self.holds = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __call__(self, messages):
        self.calls.append([message.queue_offset for message in messages])
        if self.holds_at in self.calls[-1]:
            self.holds.set()
            await self.goes_on.wait()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - of the listener's own making.
            await asyncio.sleep(0.001)


def work_of(listener, *, batch_size=1, care=None, returns=None, count=100, **settings):
    work = QueueWork(
        QUEUE,
        0,
        ListenerParts(
            deliver=listener,
            batch_size=batch_size,
            settings=PushSettings(**settings),
            holding=Holding("g"),
        ),
        on_room=lambda: None,
        returns=returns,
        **({} if care is None else {"care": care}),
    )
    work.window.put([Placed(place) for place in range(count)], count)
    work.start()
    work.wake()
    return work


@pytest.mark.parametrize("batch_size", [1, 3, RUN_MESSAGES, RUN_MESSAGES + 1])
async def test_a_call_gets_no_more_than_its_batch_and_all_come_in_order(batch_size):
    listener = Listener(holds_at=99)
    work = work_of(listener, batch_size=batch_size)
    await asyncio.wait_for(listener.holds.wait(), 60)
    assert max(map(len, listener.calls)) == batch_size
    assert [place for call in listener.calls for place in call] == list(range(100))
    listener.goes_on.set()
    assert await work.release(10) == 100


@pytest.mark.parametrize("holds_at", [0, 5, RUN_MESSAGES - 1, RUN_MESSAGES + 1])
async def test_a_release_within_a_run_has_the_offset_that_is_done(holds_at):
    listener = Listener(holds_at=holds_at)
    work = work_of(listener)
    await asyncio.wait_for(listener.holds.wait(), 60)
    assert work.done_offset == holds_at
    releasing = asyncio.create_task(work.release(10))
    await asyncio.sleep(0)
    listener.goes_on.set()
    # The call in work is finished, and no other one begins.
    assert await releasing == holds_at + 1
    assert listener.calls[-1] == [holds_at]


async def test_a_call_that_is_cancelled_within_a_run_is_not_done():
    listener = Listener(holds_at=7)
    work = work_of(listener)
    await asyncio.wait_for(listener.holds.wait(), 60)
    assert await work.release(0.01) == 7


async def test_a_failure_within_a_run_is_tried_again_and_the_rest_waits():
    tries = []

    async def listen(messages):
        place = messages[0].queue_offset
        tries.append(place)
        if tries.count(4) == 1 and place == 4:
            raise ValueError("not yet")

    work = work_of(listen, count=10, redelivery_delay_s_min=0.001)
    await until(lambda: len(tries) == 11)
    assert tries == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]
    assert await work.release(10) == 10


async def test_several_at_once_take_no_runs():
    listener = Listener(holds_at=0)
    work = work_of(listener, queue_concurrency=2, count=10)
    await asyncio.wait_for(listener.holds.wait(), 60)
    # The other one delivers all that is behind the call that holds.
    await until(lambda: len(listener.calls) == 10)
    assert work.done_offset == 0
    listener.goes_on.set()
    assert await work.release(10) == 10


async def test_messages_that_are_announced_before_are_delivered_call_by_call():
    told = []

    async def tell(_queue, consumer_offset, in_work):
        told.append((consumer_offset, in_work.end))

    care = DeliveryCare(DeliveryGate(), Caution(watched_end=3), tell)
    listener = Listener(holds_at=9)
    work = work_of(listener, care=care, count=10)
    await asyncio.wait_for(listener.holds.wait(), 60)
    listener.goes_on.set()
    assert await work.release(10) == 10
    assert told[:3] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("in_work", [0, 3, 9])
async def test_what_is_done_one_by_one_does_not_come_again(in_work):
    calls = []
    at_work = asyncio.Event()

    async def listen(messages):
        calls.append([message.queue_offset for message in messages])
        if len(messages) > 1:
            raise ValueError("one of these")
        if calls[-1] == [in_work]:
            at_work.set()
            await asyncio.Event().wait()

    work = work_of(
        listen,
        batch_size=10,
        count=10,
        returns=PassingOver(0),
        redelivery_delay_s_min=0.001,
    )
    await asyncio.wait_for(at_work.wait(), 60)
    # Twice together, then singly.
    assert calls[2:] == [[place] for place in range(in_work + 1)]
    assert work.done_offset == in_work
    assert await work.release(0.01) == in_work
