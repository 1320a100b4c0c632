"""confluent-kafka as a driver: ``confluent_driver.py BOOTSTRAP``.

Its ``produce`` batches by itself; a batch of the load is produced and then flushed by its delivery
reports, with as many batches open as the load says.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from itertools import count as counter
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from driver_loop import SILENCE_S_MAX, Arrivals, bodies_of, load_bodies, nothing, serve

PARTITIONS = 4
POLL_EVERY = 1000
CONSUMED_AT_ONCE = 10_000


class ConfluentDriver:
    """Answers what is asked, by clients of librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "batch.size": 1_000_000,
                "linger.ms": 5,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
            }
        )
        self._group_numbers = counter(1)

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the topic and the bodies."""
        topic = NewTopic(load["topic"], num_partitions=PARTITIONS, replication_factor=1)
        for made in self._admin.create_topics([topic]).values():
            made.result()
        self._producer.list_topics(load["topic"])
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send all, and wait for the report of each."""
        topic, producer = load["topic"], self._producer
        window = load["in_flight"] * load["batch"]
        delivered = failures = 0

        def report(error: KafkaError | None, _message: object) -> None:
            nonlocal delivered, failures
            if error is None:
                delivered += 1
            else:
                failures += 1

        begin = time.perf_counter()
        for number, body in enumerate(load_bodies(load)):
            producer.produce(topic, body, on_delivery=report)
            if number % POLL_EVERY == 0:
                producer.poll(0)
                while number - delivered - failures >= window:
                    producer.poll(0.1)
        producer.flush()
        seconds = time.perf_counter() - begin
        return {"count": delivered, "seconds": seconds, "failures": failures}

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Consume from the earliest message, by a new group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"bench-{next(self._group_numbers)}-{load['topic']}",
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 1 << 20,
            }
        )
        arrivals = Arrivals(load["count"])
        consumer.subscribe([load["topic"]])
        try:
            silent_since = time.monotonic()
            while not arrivals.whole and time.monotonic() - silent_since < SILENCE_S_MAX:
                # Of fewer than it is asked for, it waits for more.
                messages = consumer.consume(min(CONSUMED_AT_ONCE, arrivals.left), 0.1)
                if messages:
                    arrivals.take([m.value() for m in messages if m.error() is None])
                    silent_since = time.monotonic()
        finally:
            consumer.close()
        return arrivals.answer()


if __name__ == "__main__":
    driver = ConfluentDriver(sys.argv[1])
    asyncio.run(
        serve(
            {
                "prepare_produce": driver.prepare_produce,
                "produce": driver.produce,
                "prepare_consume": nothing,
                "consume": driver.consume,
            }
        )
    )
