"""aiokafka as a driver: ``aiokafka_driver.py BOOTSTRAP``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from itertools import count as counter
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from driver_loop import (
    SILENCE_S_MAX,
    SUMMED_AT_ONCE,
    Arrivals,
    bodies_of,
    load_batches,
    load_bodies,
    nothing,
    run_workers,
    serve,
)

PARTITIONS = 4
CONSUMED_AT_ONCE = 10_000


async def take_each(consumer: AIOKafkaConsumer, arrivals: Arrivals) -> None:
    """Take one message after the other."""
    held: list[bytes] = []
    try:
        while not arrivals.whole:
            async with asyncio.timeout(SILENCE_S_MAX):
                async for record in consumer:
                    held.append(record.value)
                    if len(held) == SUMMED_AT_ONCE or len(held) == arrivals.left:
                        arrivals.take(held)
                        held.clear()
                        break
    except TimeoutError:
        if held:
            arrivals.take(held)


async def take_many(consumer: AIOKafkaConsumer, arrivals: Arrivals) -> None:
    """Take as many messages at once as there are."""
    while not arrivals.whole:
        got = await consumer.getmany(
            timeout_ms=round(SILENCE_S_MAX * 1000), max_records=CONSUMED_AT_ONCE
        )
        if not got:
            break
        arrivals.take([record.value for records in got.values() for record in records])


class AiokafkaDriver:
    """Answers what is asked, by clients of aiokafka."""

    def __init__(
        self, bootstrap: str, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer
    ) -> None:
        self._bootstrap = bootstrap
        self._admin = admin
        self._producer = producer
        self._group_numbers = counter(1)

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the topic and the bodies."""
        topic = NewTopic(load["topic"], num_partitions=PARTITIONS, replication_factor=1)
        await self._admin.create_topics([topic])
        await self._producer.partitions_for(load["topic"])
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send each and await it, or a batch at a time and await all of it."""
        topic = load["topic"]

        async def send_one(body: bytes) -> int:
            try:
                await self._producer.send_and_wait(topic, body)
            except KafkaError:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            sent = [await self._producer.send(topic, body) for body in bodies]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            return sum(isinstance(outcome, BaseException) for outcome in outcomes)

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Consume from the earliest message, by a new group."""
        arrivals = Arrivals(load["count"])
        async with AIOKafkaConsumer(
            load["topic"],
            bootstrap_servers=self._bootstrap,
            group_id=f"bench-{next(self._group_numbers)}-{load['topic']}",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=1 << 20,
        ) as consumer:
            if load["shape"] == "each":
                await take_each(consumer, arrivals)
            else:
                await take_many(consumer, arrivals)
        return arrivals.answer()


async def main(bootstrap: str) -> None:
    """Connect, and answer."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", max_batch_size=1_000_000, linger_ms=0
        ) as producer:
            driver = AiokafkaDriver(bootstrap, admin, producer)
            await serve(
                {
                    "prepare_produce": driver.prepare_produce,
                    "produce": driver.produce,
                    "prepare_consume": nothing,
                    "consume": driver.consume,
                }
            )
    finally:
        await admin.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
