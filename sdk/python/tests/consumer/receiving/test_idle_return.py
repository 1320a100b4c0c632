"""What was fetched and nobody asks for is given back after a while."""

import asyncio
from contextlib import aclosing

import pytest

from ariane_sdk import ReceiveConsumer
from ariane_sdk.consumer.receiving.idle_return import IdleReturn
from sdk.python.tests.consumer.receiving.scripted_receiving import receiving_broker

BATCH = 4


async def test_closing_waits_for_messages_that_are_being_given_back():
    goes_on, begun, given_back = asyncio.Event(), [], []

    async def slowly():
        begun.append(True)
        await goes_on.wait()
        given_back.append(True)

    idle = IdleReturn(slowly, 0)
    async with asyncio.timeout(60):
        while len(begun) < 2:
            idle.begin()
            await asyncio.sleep(0.001)
    closing = asyncio.create_task(idle.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    goes_on.set()
    await closing
    assert len(given_back) == len(begun)


async def test_who_is_asked_again_in_time_gives_nothing_back():
    given_back = []

    async def give_back():
        given_back.append(True)

    idle = IdleReturn(give_back, 0.01)
    idle.begin()
    idle.end()
    await asyncio.sleep(0.05)
    await idle.close()
    assert not given_back


@pytest.mark.parametrize(("way", "settlements"), [("batches", 1), ("receive", 2)])
async def test_what_brokers_keep_invisible_is_given_back_after_a_loop(world, way, settlements):
    """Each settlement is of an answer; ``receive`` gives back what is left of the first, too."""
    async with receiving_broker(world, 3 * BATCH) as broker, asyncio.timeout(30):
        consumer = ReceiveConsumer(
            world.name_servers,
            group="g",
            subscriptions={"jobs": "*"},
            invisible_s=1.0,
            keep_invisible=True,
        )
        async with consumer:
            async with aclosing(getattr(consumer, way)(BATCH)) as got:
                await anext(got)
            assert broker.calls == 2
            while broker.settled < settlements:  # noqa: ASYNC110 - no event tells it.
                await asyncio.sleep(0.01)
            assert broker.settled == settlements
