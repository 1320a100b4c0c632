"""aiokafka as a driver: ``aiokafka_driver.py BOOTSTRAP``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from itertools import count as counter
from itertools import cycle
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
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
    topics_of,
)

PARTITIONS = 4
CONSUMED_AT_ONCE = 10_000
LEADERS_MS_MAX = 120_000


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
        self._many_topics: list[str] = []

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the topics and the bodies; of many topics, those of the leg before go."""
        topics = topics_of(load)
        if topics == self._many_topics:
            return {}
        await self._admin.create_topics(
            [NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1) for topic in topics]
        )
        # Before others are deleted: a server makes what somebody asks for.
        await self._producer.client.set_topics(topics)
        for topic in topics:
            await self._producer.partitions_for(topic)
        await self._wait_for_leaders(topics)
        if self._many_topics:
            await self._admin.delete_topics(self._many_topics)
        self._many_topics = topics if len(topics) > 1 else []
        bodies_of(load["body_bytes"])
        return {}

    async def _wait_for_leaders(self, topics: Sequence[str]) -> None:
        """Wait until every partition is there: a server says so before, of many by seconds."""
        async with AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self._bootstrap,
            request_timeout_ms=LEADERS_MS_MAX,
        ) as consumer:
            await consumer.end_offsets(
                [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
            )

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send each and await it, or a batch at a time and await all of it."""
        # To all topics in turn, whoever sends next.
        topics = cycle(topics_of(load))

        async def send_one(body: bytes) -> int:
            try:
                await self._producer.send_and_wait(next(topics), body)
            except KafkaError:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            topic = next(topics)
            sent = [await self._producer.send(topic, body) for body in bodies]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            return sum(isinstance(outcome, BaseException) for outcome in outcomes)

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Consume from the earliest message, by a new group, or where the group that lasts is."""
        arrivals = Arrivals(load["count"])
        group = load["group"] or f"bench-{next(self._group_numbers)}-{load['topic']}"
        async with AIOKafkaConsumer(
            *topics_of(load),
            bootstrap_servers=self._bootstrap,
            group_id=group,
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
