"""One call for all who ask the same at the same time."""

import asyncio

import pytest

from ariane_gateway.brokers.single_flight import SingleFlight
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused


@pytest.fixture
def calls():
    """The calls that were made, each a future."""
    return []


@pytest.fixture
async def asked(calls):
    """Ask, as a task of its own."""
    flights = SingleFlight()

    async def call():
        calls.append(asyncio.get_running_loop().create_future())
        return await calls[-1]

    async def asked(key):
        task = asyncio.ensure_future(flights.ask(key, call))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task

    yield asked
    flights.close()


async def test_who_asks_the_same_at_the_same_time_shares_the_answer(asked, calls):
    first, second, other = await asked("a"), await asked("a"), await asked("b")
    assert len(calls) == 2
    calls[0].set_result("one")
    calls[1].set_result("two")
    assert (await first, await second, await other) == ("one", "one", "two")
    third = await asked("a")
    calls[2].set_result("three")
    assert await third == "three"


async def test_a_call_goes_on_when_who_asked_first_leaves(asked, calls):
    first, second = await asked("a"), await asked("a")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    calls[0].set_exception(Refused(Refusal.BUSY, "not now"))
    with pytest.raises(Refused, match="not now"):
        await second
    assert len(calls) == 1
