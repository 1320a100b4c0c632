"""pika as a driver of quorum queues: ``pika_driver.py PORT``. A topic is one queue.

Its blocking connection waits for each confirmation; its asynchronous one does not, so it is that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pika
from driver_loop import Arrivals, bodies_of, load_batches, load_bodies, nothing, run_workers, serve
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel

PREFETCHED = 4000
ACKNOWLEDGED_AT_ONCE = 1000
_PERSISTENT = pika.BasicProperties(delivery_mode=2)


async def called_back(ask: Callable[..., Any]) -> Any:
    """Wait for the callback of a question; what it was given."""
    answered = asyncio.get_running_loop().create_future()
    ask(callback=lambda *given: answered.set_result(given[0] if given else None))
    return await answered


class Confirmations:
    """Sends that wait to be confirmed, by their delivery tags, which a channel counts from 1."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._sent = 0

    def next(self) -> asyncio.Future[bool]:
        """What the next send waits for: whether it was taken."""
        self._sent += 1
        waiting = self._waiting[self._sent] = asyncio.get_running_loop().create_future()
        return waiting

    def take(self, frame: Any) -> None:
        """One send was confirmed or refused, or all up to it."""
        taken = isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        tags = [tag] if not frame.method.multiple else [t for t in self._waiting if t <= tag]
        for each in tags:
            self._waiting.pop(each).set_result(taken)


class PikaDriver:
    """Answers what is asked, by a channel that sends, with confirmations, and one that gets."""

    def __init__(self, sending: Channel, consuming: Channel, confirmed: Confirmations) -> None:
        self._sending = sending
        self._consuming = consuming
        self._confirmed = confirmed

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the queue and the bodies."""
        arguments = {"x-queue-type": "quorum"}
        await called_back(
            partial(self._sending.queue_declare, load["topic"], durable=True, arguments=arguments)
        )
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Publish each and await its confirmation, or a batch at a time."""
        topic = load["topic"]

        def publish(body: bytes) -> asyncio.Future[bool]:
            self._sending.basic_publish("", topic, body, _PERSISTENT)
            return self._confirmed.next()

        async def send_one(body: bytes) -> int:
            return int(not await publish(body))

        async def send_batch(bodies: list[bytes]) -> int:
            taken = await asyncio.gather(*map(publish, bodies))
            return len(bodies) - sum(taken)

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Take all of the queue; every thousandth acknowledges those before it."""
        arrivals = Arrivals(load["count"])
        topic, channel = load["topic"], self._consuming
        got = 0

        def take(_channel: Channel, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal got
            arrivals.take((body,))
            got += 1
            if got % ACKNOWLEDGED_AT_ONCE == 0 or arrivals.whole:
                channel.basic_ack(method.delivery_tag, multiple=True)

        tag = channel.basic_consume(topic, take)
        await arrivals.wait()
        await called_back(partial(channel.basic_cancel, tag))
        await called_back(partial(channel.queue_delete, topic))
        return arrivals.answer()


async def connected(port: int) -> AsyncioConnection:
    """A connection that is open."""
    opened = asyncio.get_running_loop().create_future()
    AsyncioConnection(
        pika.ConnectionParameters("127.0.0.1", port),
        on_open_callback=opened.set_result,
        on_open_error_callback=lambda _connection, error: opened.set_exception(error),
    )
    return await opened


async def main(port: str) -> None:
    """Connect, and answer."""
    connection = await connected(int(port))
    sending = await called_back(lambda callback: connection.channel(on_open_callback=callback))
    consuming = await called_back(lambda callback: connection.channel(on_open_callback=callback))
    confirmed = Confirmations()
    await called_back(partial(sending.confirm_delivery, confirmed.take))
    await called_back(partial(consuming.basic_qos, prefetch_count=PREFETCHED))
    driver = PikaDriver(sending, consuming, confirmed)
    await serve(
        {
            "prepare_produce": driver.prepare_produce,
            "produce": driver.produce,
            "prepare_consume": nothing,
            "consume": driver.consume,
        }
    )
    connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
