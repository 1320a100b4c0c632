"""Clients run on uvloop as they do on asyncio's own loop."""

import asyncio
import threading

import pytest

from ariane_sdk import Message, Producer, PushConsumer

uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")


def test_send_and_consume_on_uvloop(cluster):
    async def scenario():
        got = asyncio.get_running_loop().create_future()

        async def listen(messages):
            if not got.done():
                got.set_result(messages[0].body)

        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("uvloop", b"x"))
        async with PushConsumer(
            cluster.name_servers,
            group="uvloop",
            subscriptions={"uvloop": "*"},
            listener=listen,
            start="earliest",
        ):
            return await asyncio.wait_for(got, 60)

    # gRPC's threads are bound to the first loop of a thread: a fresh one for this one.
    outcome = []
    thread = threading.Thread(
        target=lambda: outcome.append(
            asyncio.Runner(loop_factory=uvloop.new_event_loop).run(scenario())
        )
    )
    thread.start()
    thread.join(30)

    assert outcome == [b"x"]
