"""What was fetched and nobody asks for is given back after a while."""

import asyncio

from ariane_sdk.consumer.receiving.idle_return import IdleReturn


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
