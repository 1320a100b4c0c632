"""Clients on another loop than their own, and clients that nobody has closed."""

import asyncio
import gc
import threading

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    QueueReader,
    errors,
    sync,
)

NOBODY = "127.0.0.1:1"


def on_another_loop(make_coroutine):
    """Run a coroutine on a loop of another thread; return its error."""
    failure = []

    def work():
        try:
            asyncio.run(make_coroutine())
        except errors.ArianeError as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return failure


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (Producer, lambda client: client.send(Message("orders", b"x"))),
        (Producer, lambda client: client.close()),
        (ClusterClient, lambda client: client.list_topics()),
        (QueueReader, lambda client: client.close()),
    ],
)
async def test_a_client_is_used_on_its_own_loop_only(make, use):
    async with make(NOBODY) as client:
        [error] = await asyncio.to_thread(on_another_loop, lambda: use(client))
        assert isinstance(error, errors.ClientOnOtherLoop)
        assert error.reason == "CLIENT_ON_OTHER_LOOP"


async def test_a_send_without_a_loop_is_refused(producer_of_nobody):
    def work():
        with pytest.raises(errors.ClientOnOtherLoop):
            producer_of_nobody.send_nowait(Message("orders", b"x"))

    await asyncio.to_thread(work)


@pytest.fixture
async def producer_of_nobody():
    async with Producer(NOBODY) as producer:
        yield producer


def forget(held):
    held.clear()
    gc.collect()


@pytest.mark.parametrize("make", [Producer, ClusterClient, sync.ClusterClient, sync.Producer])
def test_a_client_that_nobody_closes_warns(make):
    gc.collect()  # What earlier tests have left is not this one's.
    client = make(NOBODY)
    started = client.start()
    if started is not None:
        asyncio.run(started)
    inner, thread = getattr(client, "_client", None), getattr(client, "_loop_thread", None)
    held = [client]
    del client, started
    with pytest.warns(ResourceWarning, match=f"{make.__name__} was started and never closed"):
        forget(held)
    if thread is not None:
        thread.run(inner.close())
        thread.close()
