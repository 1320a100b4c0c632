"""Coroutines that begin where they are called."""

from __future__ import annotations

import asyncio

from ariane_sdk.producer.sending.append_stream import PromptRun


async def test_what_comes_before_the_first_wait_is_done_at_once():
    steps: list[str] = []
    ends: list[BaseException | None] = []
    gate = asyncio.get_running_loop().create_future()

    async def work() -> None:
        steps.append("before")
        steps.append(await gate)

    PromptRun(work(), ends.append)
    assert (steps, ends) == (["before"], [])
    gate.set_result("after")
    await asyncio.sleep(0)
    assert (steps, ends) == (["before", "after"], [None])


async def test_what_need_not_wait_is_over_at_once():
    ends: list[BaseException | None] = []

    async def work() -> None:
        pass

    PromptRun(work(), ends.append)
    assert ends == [None]


async def test_who_gives_others_a_turn_goes_on_in_the_next():
    ends: list[BaseException | None] = []

    async def work() -> None:
        await asyncio.sleep(0)

    PromptRun(work(), ends.append)
    assert ends == []
    await asyncio.sleep(0)
    assert ends == [None]


async def test_failures_are_told_whether_they_come_at_once_or_later():
    ends: list[BaseException | None] = []
    gate = asyncio.get_running_loop().create_future()
    failure = ValueError("broken")

    async def fail(*, later: bool) -> None:
        if later:
            await gate
        raise failure

    PromptRun(fail(later=False), ends.append)
    assert ends == [failure]
    PromptRun(fail(later=True), ends.append)
    gate.cancel()
    await asyncio.sleep(0)
    assert isinstance(ends[1], asyncio.CancelledError)
