"""nats-py as a driver of JetStream: ``nats_driver.py URL``. A topic is a stream of one subject."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from itertools import count as counter
from typing import Any

import nats
from driver_loop import (
    SILENCE_S_MAX,
    Arrivals,
    bodies_of,
    load_batches,
    load_bodies,
    nothing,
    run_workers,
    serve,
)
from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

FETCHED_AT_ONCE = 1000


class NatsDriver:
    """Answers what is asked, by one connection."""

    def __init__(self, stream: JetStreamContext) -> None:
        self._stream = stream
        self._group_numbers = counter(1)

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the stream, in files, and the bodies."""
        config = StreamConfig(
            name=load["topic"], subjects=[load["topic"]], storage=StorageType.FILE
        )
        await self._stream.add_stream(config)
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Publish each and await it, or a batch at a time and await all of it."""
        topic, stream = load["topic"], self._stream

        async def send_one(body: bytes) -> int:
            try:
                await stream.publish(topic, body)
            except Error:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            sent = [await stream.publish_async(topic, body) for body in bodies]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            return sum(isinstance(outcome, BaseException) for outcome in outcomes)

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Fetch from the first message, by a new consumer; a batch is acknowledged by its last."""
        arrivals = Arrivals(load["count"])
        config = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=100 * FETCHED_AT_ONCE)
        durable = f"group-{next(self._group_numbers)}"
        subscription = await self._stream.pull_subscribe(load["topic"], durable, config=config)
        while not arrivals.whole:
            try:
                messages = await subscription.fetch(FETCHED_AT_ONCE, timeout=SILENCE_S_MAX)
            except NatsTimeout:
                break
            arrivals.take([message.data for message in messages])
            await messages[-1].ack()
        await subscription.unsubscribe()
        return arrivals.answer()


async def main(url: str) -> None:
    """Connect, and answer."""
    connection = await nats.connect(url)
    try:
        driver = NatsDriver(connection.jetstream(publish_async_max_pending=100_000))
        await serve(
            {
                "prepare_produce": driver.prepare_produce,
                "produce": driver.produce,
                "prepare_consume": nothing,
                "consume": driver.consume,
            }
        )
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
