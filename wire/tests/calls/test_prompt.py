"""A call that is cancelled before the task that it has become has run."""

import asyncio
import contextvars
import gc

import pytest

from ariane_wire.server.prompt import run_prompt


def begin(coroutine):
    return run_prompt(asyncio.get_running_loop(), coroutine, contextvars.copy_context())


async def test_what_it_waits_for_is_cancelled_as_by_any_task():
    """Request and reset of a stream come in one read where a server stood still."""
    told = []
    waited = asyncio.get_running_loop().create_future()

    async def handler():
        try:
            await waited
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    task = begin(handler())
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert waited.cancelled()
    assert told == ["cancelled"]


@pytest.mark.parametrize("is_failed", [False, True])
async def test_an_error_that_comes_with_the_cancellation_is_reported_by_nobody(is_failed):
    reported = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    work = loop.create_future()
    work.add_done_callback(lambda done: done.exception())

    async def handler():
        await asyncio.shield(work)

    task = begin(handler())
    if is_failed:
        work.set_exception(ValueError("refused"))
        loop.call_soon(task.cancel)
    else:
        task.cancel()
        work.set_exception(ValueError("refused"))
    await asyncio.wait((task,))
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert not reported


async def test_who_goes_on_after_the_cancellation_does_so_as_in_a_task():
    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        done.append("went on")

    done = []
    task = begin(stubborn())
    task.cancel()
    await asyncio.wait((task,))
    assert done == ["went on"]
    assert not task.cancelled()
