"""Reading what lies far back holds up nobody who waits for what comes."""

from __future__ import annotations

import asyncio

import pytest

from ariane_sdk import Message, Producer, PushConsumer, QueueReader

BACKLOG_COUNT = 30_000
FRESH_COUNT = 50


@pytest.mark.slow
async def test_fresh_messages_do_not_wait_for_who_reads_a_deep_backlog(local_cluster, ariane):
    async with local_cluster() as cluster:
        for topic in ("old", "fresh"):
            await ariane(cluster, "topic", "create", topic, "--queues", "1")
        async with Producer(cluster.name_servers, group="writers") as producer:
            await producer.send_batch([Message("old", bytes(1024))] * BACKLOG_COUNT)
            heard: asyncio.Queue[bytes] = asyncio.Queue()

            async def listen(messages):
                for message in messages:
                    heard.put_nowait(message.body)

            passes = Passes(cluster.name_servers)
            async with PushConsumer(
                cluster.name_servers,
                group="readers",
                subscriptions={"fresh": "*"},
                listener=listen,
                start="earliest",
            ) as consumer:
                await consumer.wait_assigned()
                reading = asyncio.create_task(passes.read_for_ever())
                held_up = 0
                try:
                    for number in range(FRESH_COUNT):
                        began = passes.done
                        await producer.send(Message("fresh", b"%d" % number))
                        async with asyncio.timeout(60):
                            assert await heard.get() == b"%d" % number
                        # Whoever waits for a reader comes after its end.
                        held_up += passes.done > began
                    # Not before the backlog was really read through meanwhile.
                    async with asyncio.timeout(60):
                        await passes.one_done.wait()
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled(), reading.exception()
        # Some passes end by chance while a message is on its way.
        assert held_up < FRESH_COUNT / 2


class Passes:
    """Reads the backlog from its beginning to its end, again and again."""

    def __init__(self, name_servers):
        self.done = 0
        """How many times it got to the end."""
        self.one_done = asyncio.Event()
        """Set by the first of them."""
        self._name_servers = name_servers

    async def read_for_ever(self):
        async with QueueReader(self._name_servers) as reader:
            [(queue, (begin, end))] = (await reader.bounds("old")).items()
            while True:
                count = 0
                async for columns in reader.read_range(queue, begin, end):
                    count += len(columns)
                assert count == BACKLOG_COUNT
                self.done += 1
                self.one_done.set()
