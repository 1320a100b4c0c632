"""aio-pika as a driver of quorum queues: ``aio_pika_driver.py PORT``. A topic is one queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError
from driver_loop import Arrivals, bodies_of, load_batches, load_bodies, nothing, run_workers, serve

PREFETCHED = 4000
ACKNOWLEDGED_AT_ONCE = 1000


class RabbitmqDriver:
    """Answers what is asked, by a channel that sends, with confirmations, and one that gets."""

    def __init__(self, sending: AbstractChannel, consuming: AbstractChannel) -> None:
        self._sending = sending
        self._consuming = consuming

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the queue and the bodies."""
        await self._sending.declare_queue(
            load["topic"], durable=True, arguments={"x-queue-type": "quorum"}
        )
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Publish each and await its confirmation, or a batch at a time."""
        topic, exchange = load["topic"], self._sending.default_exchange

        async def send_one(body: bytes) -> int:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            try:
                await exchange.publish(message, routing_key=topic)
            except AMQPError:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            return sum(await asyncio.gather(*map(send_one, bodies)))

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Take all of the queue; every thousandth acknowledges those before it."""
        arrivals = Arrivals(load["count"])
        queue = await self._consuming.get_queue(load["topic"])
        got = 0

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal got
            arrivals.take((message.body,))
            got += 1
            if got % ACKNOWLEDGED_AT_ONCE == 0 or arrivals.whole:
                await message.ack(multiple=True)

        tag = await queue.consume(take)
        await arrivals.wait()
        await queue.cancel(tag)
        await queue.delete(if_unused=False, if_empty=False)
        return arrivals.answer()


async def main(port: str) -> None:
    """Connect, and answer."""
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        sending = await connection.channel(publisher_confirms=True)
        consuming = await connection.channel()
        await consuming.set_qos(prefetch_count=PREFETCHED)
        driver = RabbitmqDriver(sending, consuming)
        await serve(
            {
                "prepare_produce": driver.prepare_produce,
                "produce": driver.produce,
                "prepare_consume": nothing,
                "consume": driver.consume,
            }
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
