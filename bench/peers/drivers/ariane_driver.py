"""Our own client as a driver: ``ariane_driver.py NAME_SERVERS CALLS_IN_FLIGHT``.

One process sends; another one listens, where that is done at the same time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count as counter
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
from driver_loop import (
    POOL_SIZE,
    SILENCE_S_MAX,
    SUMMED_AT_ONCE,
    Arrivals,
    bodies_of,
    digest_of,
    digest_of_rows,
    each_of,
    load_batches,
    load_bodies,
    nothing,
    run_workers,
    serve,
    topics_of,
)
from scheduled import Heard, Schedule, send_on_schedule

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    QueueReader,
    ReceiveConsumer,
    ReceivedMessage,
)
from ariane_sdk.errors import ArianeError, BatchSendError, ColumnsSendError

QUEUE_COUNT = 4
LISTENER_BATCH = 32
RECEIVE_BATCH = 2000


class ArianeDriver:
    """Answers what is asked, by clients of ours."""

    def __init__(
        self,
        name_servers: str,
        cluster: ClusterClient,
        producer: Producer,
    ) -> None:
        self._name_servers = name_servers
        self._cluster = cluster
        self._producer = producer
        self._group_numbers = counter(1)
        self._table = pa.table({"body": pa.array([], pa.binary())})
        self._many_topics: list[str] = []
        self._heard: Heard | None = None
        self._listener: PushConsumer | None = None

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the topic, the bodies and the route."""
        topics = topics_of(load)
        if topics == self._many_topics:
            return {}
        # Of many topics only those of this leg are there: the work is named by their number.
        await each_of(
            self._many_topics, lambda topic: self._cluster.delete_topic(topic, missing_ok=True)
        )
        self._many_topics = topics if len(topics) > 1 else []
        await each_of(
            topics,
            lambda topic: self._cluster.create_topic(
                topic, queue_count=QUEUE_COUNT, exists_ok=True
            ),
        )
        await each_of(topics, self._producer.route)
        pool = bodies_of(load["body_bytes"])
        if load["shape"] == "columns":
            # Whole rounds of the pool, so that a table is a slice wherever it begins.
            rounds = -(-load["rows"] // len(pool)) + 1
            self._table = pa.table({"body": pa.array(pool * rounds)})
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send in the shape that is asked for."""
        begin = time.perf_counter()
        answer = await self._produce(load)
        if load["until_ready"]:
            await self._wait_ready(topics_of(load), answer["count"])
            answer["ready_s"] = time.perf_counter() - begin
        return answer

    async def _wait_ready(self, topics: Sequence[str], count: int) -> None:
        """Wait until consumers would be told of so many messages."""
        async with QueueReader(self._name_servers) as reader:
            while True:
                bounds = [await reader.bounds(topic) for topic in topics]
                if sum(end - first for each in bounds for first, end in each.values()) >= count:
                    return
                await asyncio.sleep(0.01)

    async def send_until_stored(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send one message again and again until it is acknowledged."""
        body, failures = bodies_of(load["body_bytes"])[0], 0
        while True:
            try:
                await self._producer.send(Message(load["topic"], body))
            except ArianeError:
                failures += 1
                await asyncio.sleep(0.01)
            else:
                return {"failures": failures}

    async def _produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        # To all topics in turn, whoever sends next.
        topics = cycle(topics_of(load))
        producer = self._producer

        async def send_one(body: bytes) -> int:
            try:
                await producer.send(Message(next(topics), body))
            except ArianeError:
                return 1
            return 0

        async def send_in_transaction(body: bytes) -> int:
            try:
                async with self._producer.transaction(Message(next(topics), body)):
                    pass
            except ArianeError:
                return 1
            return 0

        async def send_batch(bodies: list[bytes]) -> int:
            topic = next(topics)
            try:
                await self._producer.send_batch([Message(topic, body) for body in bodies])
            except BatchSendError as error:
                return sum(isinstance(outcome, ArianeError) for outcome in error.outcomes)
            return 0

        if load["shape"] == "singles":
            return await run_workers(load_bodies(load), load["in_flight"], send_one)
        if load["shape"] == "transactions":
            return await run_workers(load_bodies(load), load["in_flight"], send_in_transaction)
        if load["shape"] == "batches":
            return await run_workers(load_batches(load), load["in_flight"], send_batch)
        return await self._produce_columns(load)

    async def _produce_columns(self, load: Mapping[str, Any]) -> dict[str, Any]:
        tables = self._tables_of(load)
        sent = failures = 0

        async def send_tables() -> None:
            nonlocal sent, failures
            for table in tables:
                try:
                    places = await self._producer.send_columns(load["topic"], table)
                except ColumnsSendError:
                    failures += len(table)
                else:
                    sent += len(places)

        begin = time.perf_counter()
        await asyncio.gather(*(send_tables() for _ in range(load["in_flight"])))
        return {"count": sent, "seconds": time.perf_counter() - begin, "failures": failures}

    def _tables_of(self, load: Mapping[str, Any]) -> Iterator[pa.Table]:
        for first in range(0, load["count"], load["rows"]):
            rows = min(load["rows"], load["count"] - first)
            yield self._table.slice(first % POOL_SIZE, rows)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Consume from the earliest message, by a new group."""
        group = load["group"] or self._new_group()
        if load["shape"] == "chunks":
            return await self._consume_columns(group, load)
        if load["shape"] == "receive":
            return await self._receive(group, load)
        arrivals = Arrivals(load["count"])

        held: list[bytes] = []

        async def listen(messages: Sequence[ReceivedMessage]) -> None:
            arrivals.take([message.body for message in messages])

        async def listen_to_each(messages: Sequence[ReceivedMessage]) -> None:
            held.append(messages[0].body)
            if len(held) == SUMMED_AT_ONCE or len(held) == arrivals.left:
                arrivals.take(held)
                held.clear()

        each = load["shape"] == "each"
        async with PushConsumer(
            self._name_servers,
            group=group,
            subscriptions=dict.fromkeys(topics_of(load), "*"),
            listener=listen_to_each if each else listen,
            batch_size=1 if each else LISTENER_BATCH,
            start="earliest",
        ):
            await arrivals.wait()
        return arrivals.answer()

    async def _consume_columns(self, group: str, load: Mapping[str, Any]) -> dict[str, Any]:
        arrivals = Arrivals(load["count"], _digest_of_batch)
        async with PullConsumer(
            self._name_servers,
            group=group,
            subscriptions=dict.fromkeys(topics_of(load), "*"),
            start="earliest",
            column_names=["queueOffset", "body"],
        ) as consumer:
            arriving = consumer.columns()
            try:
                while not arrivals.whole:
                    async with asyncio.timeout(SILENCE_S_MAX):
                        arrivals.take(await anext(arriving))
            except TimeoutError:
                pass
            finally:
                await arriving.aclose()
        return arrivals.answer()

    async def _receive(self, group: str, load: Mapping[str, Any]) -> dict[str, Any]:
        """Receive without owning queues; acknowledge each batch before asking for the next."""
        arrivals = Arrivals(load["count"])
        async with ReceiveConsumer(
            self._name_servers, group=group, subscriptions=dict.fromkeys(topics_of(load), "*")
        ) as consumer:
            while not arrivals.whole:
                batch = await consumer.receive_batch(RECEIVE_BATCH, timeout_s=SILENCE_S_MAX)
                if not batch:
                    break
                await consumer.ack(*batch)
                arrivals.take([message.body for message in batch])
        return arrivals.answer()

    async def listen(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Listen to what is sent on a schedule, until that is asked for."""
        heard = self._heard = Heard(load)

        async def listener(messages: Sequence[ReceivedMessage]) -> None:
            heard.take(messages)

        self._listener = PushConsumer(
            self._name_servers,
            group=self._new_group(),
            subscriptions={load["topic"]: "*"},
            listener=listener,
            start="earliest",
        )
        await self._listener.start()
        await self._listener.wait_assigned()
        return {}

    async def heard(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """What was heard, once all is."""
        del load
        assert self._listener is not None
        assert self._heard is not None
        await self._heard.wait()
        await self._listener.close()
        return self._heard.answer()

    async def send_scheduled(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Send each when it is due, whatever became of those before it."""
        topic, delay_ms = load["topic"], load["delay_ms"]

        def send(body: bytes, later_ms: int) -> asyncio.Future[Any]:
            delay = timedelta(milliseconds=later_ms) if delay_ms else None
            return self._producer.send_nowait(Message(topic, body, delay=delay))

        return await send_on_schedule(Schedule(load), send)

    def _new_group(self) -> str:
        return f"bench-{os.getpid()}-{next(self._group_numbers)}"


def _digest_of_batch(batch: pa.RecordBatch) -> int:
    """The digest of the bodies of a batch."""
    body = batch.column("body")
    _, places, octets = body.buffers()
    bounds = np.frombuffer(places, np.int32)[body.offset : body.offset + len(body) + 1]
    sizes = np.diff(bounds)
    if not len(sizes) or (sizes != sizes[0]).any():
        return digest_of(body.to_pylist())
    return digest_of_rows(np.frombuffer(octets, np.uint8)[bounds[0] : bounds[-1]], int(sizes[0]))


async def main(name_servers: str, calls_in_flight: str) -> None:
    """Connect, and answer."""
    settings = ProducerSettings(calls_in_flight_max=int(calls_in_flight))
    async with (
        ClusterClient(name_servers) as cluster,
        Producer(name_servers, group="bench", settings=settings) as producer,
    ):
        driver = ArianeDriver(name_servers, cluster, producer)

        await serve(
            {
                "prepare_produce": driver.prepare_produce,
                "produce": driver.produce,
                "prepare_consume": nothing,
                "consume": driver.consume,
                "listen": driver.listen,
                "send_scheduled": driver.send_scheduled,
                "heard": driver.heard,
                "send_until_stored": driver.send_until_stored,
            }
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
