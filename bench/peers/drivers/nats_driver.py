"""nats-py as a driver of JetStream: ``nats_driver.py URL STREAMS``.

A topic is a stream of one subject where ``STREAMS`` is ``each``; where it is ``one``, many topics
are subjects of one stream.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from itertools import count as counter
from itertools import cycle
from typing import Any

import nats
from driver_loop import (
    SILENCE_S_MAX,
    Arrivals,
    bodies_of,
    each_of,
    load_batches,
    load_bodies,
    nothing,
    run_workers,
    serve,
    share_of,
    topics_of,
)
from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

FETCHED_AT_ONCE = 1000


class NatsDriver:
    """Answers what is asked, by one connection.

    Args:
        stream: The connection's JetStream.
        one_stream: Whether many topics are subjects of one stream, and not a stream each.
    """

    def __init__(self, stream: JetStreamContext, *, one_stream: bool) -> None:
        self._stream = stream
        self._one_stream = one_stream
        self._group_numbers = counter(1)
        self._made: dict[str, str] = {}

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the streams, in files, and the bodies; of many, those of the leg before go."""
        streams = self._streams_of(load)
        if streams == self._made:
            return {}
        if len(self._made) > 1:
            await each_of(self._made, self._stream.delete_stream)
        self._made = streams
        await each_of(streams, self._make)
        bodies_of(load["body_bytes"])
        return {}

    def _streams_of(self, load: Mapping[str, Any]) -> dict[str, str]:
        """The streams of a load, each with its subject; of one stream, with their pattern."""
        if self._one_stream:
            return {load["topic"]: f"{load['topic']}.*"}
        return {topic: topic for topic in topics_of(load)}

    def _subjects_of(self, load: Mapping[str, Any]) -> list[str]:
        if self._one_stream:
            return [f"{load['topic']}.{number}" for number in range(load["topics"])]
        return topics_of(load)

    async def _make(self, name: str) -> None:
        config = StreamConfig(name=name, subjects=[self._made[name]], storage=StorageType.FILE)
        await self._stream.add_stream(config)

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Publish each and await it, or a batch at a time and await all of it."""
        stream = self._stream
        # To all topics in turn, whoever sends next.
        topics = cycle(self._subjects_of(load))

        async def send_one(body: bytes) -> int:
            try:
                await stream.publish(next(topics), body)
            except Error:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            topic = next(topics)
            sent = [await stream.publish_async(topic, body) for body in bodies]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            return sum(isinstance(outcome, BaseException) for outcome in outcomes)

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Fetch from the first message, by a new consumer of each stream, or by those that last."""
        arrivals = Arrivals(load["count"])
        durable = load["group"] or f"group-{next(self._group_numbers)}"
        subjects = list(self._streams_of(load).values())
        counts = [load["count"]]
        if len(subjects) > 1:
            counts = [share_of(load, number) for number in range(len(subjects))]
        await asyncio.gather(
            *(
                self._fetch(subject, durable, count, arrivals)
                for subject, count in zip(subjects, counts, strict=True)
            )
        )
        return arrivals.answer()

    async def _fetch(self, subject: str, durable: str, left: int, arrivals: Arrivals) -> None:
        """Fetch so many of a stream, no more at once than it has; acknowledge by the last one."""
        config = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=100 * FETCHED_AT_ONCE)
        subscription = await self._stream.pull_subscribe(subject, durable, config=config)
        while left > 0:
            try:
                # Asked for more than there is, it would wait for as long as it may.
                messages = await subscription.fetch(
                    min(FETCHED_AT_ONCE, left), timeout=SILENCE_S_MAX
                )
            except NatsTimeout:
                break
            left -= len(messages)
            arrivals.take([message.data for message in messages])
            await messages[-1].ack()
        await subscription.unsubscribe()


async def main(url: str, streams: str) -> None:
    """Connect, and answer."""
    connection = await nats.connect(url)
    try:
        driver = NatsDriver(
            connection.jetstream(publish_async_max_pending=100_000), one_stream=streams == "one"
        )
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
    asyncio.run(main(*sys.argv[1:]))
