"""The loop of blocking clients."""

import asyncio
import os
import signal
import threading

import pytest

from ariane_sdk.runtime.blocking import BlockingClient, LoopThread, blocking_iterator


def fail():
    raise RuntimeError("a fault of ours")


async def close_nothing():
    pass


@pytest.fixture
def thread():
    thread = LoopThread(close_nothing)
    yield thread
    thread.close()


def run_callback(thread, callback):
    """Run a callback on the loop, and whatever handles its error."""

    async def call():
        loop = asyncio.get_running_loop()
        loop.call_soon(callback)
        done = asyncio.Event()
        loop.call_soon(done.set)
        await done.wait()

    thread.run(call())


def test_other_errors_of_callbacks_are_told_as_ever(thread, caplog):
    run_callback(thread, fail)
    [record] = caplog.records
    assert record.name == "asyncio"
    assert "a fault of ours" in str(record.exc_info[1])
    assert thread.run(asyncio.sleep(0, "goes on")) == "goes on"


class Slow:
    """An element, and then nothing; its clean-up takes many turns of the loop."""

    def __init__(self):
        self.waits = threading.Event()
        self.cleared = False

    async def start(self):
        pass

    async def close(self):
        pass

    async def elements(self):
        try:
            yield 1
            self.waits.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            self.cleared = True


class BlockingSlow(BlockingClient):
    elements = blocking_iterator(Slow.elements)


def test_a_generator_is_closed_when_its_clean_up_is_over():
    slow = Slow()
    with BlockingSlow(slow) as client:
        elements = client.elements()
        assert next(elements) == 1
        assert slow.waits.wait(60)
        elements.close()
        assert slow.cleared


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_in_the_midst_of_a_call_ends(thread):
    """Locks that another thread of the parent held stay locked in the child."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold():
        with thread._lock:
            is_held.set()
            is_over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    child = os.fork()
    if not child:
        signal.alarm(10)
        status = 99
        try:
            thread.end_at_exit()
            status = 7
        finally:
            os._exit(status)
    is_over.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
