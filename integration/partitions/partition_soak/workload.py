"""Clients of one run: some send and note what became of it, some read and note what they saw."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings, QueueReader
from ariane_sdk.errors import ArianeError, SendError
from partition_soak.history import Entry, History, Outcome, Poll, Send

PRODUCERS: Final = 2
CLIENTS_PER_QUEUE: Final = 2
QUEUES: Final = 2
BATCH: Final = 3
READERS: Final = 2
SEND_S_MAX: Final = 6.0
"""Longer than a failover takes, shorter than many faults: some sends end without an outcome."""

PAUSE_S: Final = 0.03
"""Between two batches of a client: brokers, proxies and clients share few processors."""

SETTINGS: Final = ProducerSettings(send_timeout_s=SEND_S_MAX, call_timeout_s=2.0)


class Workload:
    """The clients of one topic of one broker group."""

    def __init__(self, name_servers: str, topic: str, broker_name: str, history: History) -> None:
        """Do nothing yet."""
        self._name_servers = name_servers
        self._topic = topic
        self._broker_name = broker_name
        self._history = history
        self._tasks: list[asyncio.Task[None]] = []
        self._readings: list[asyncio.Task[None]] = []
        self._producers: list[Producer] = []
        self._readers: list[QueueReader] = []
        self._ends = asyncio.Event()

    async def start(self) -> None:
        """Let all begin."""
        for number in range(PRODUCERS):
            producer = Producer(self._name_servers, settings=SETTINGS)
            await producer.start()
            self._producers.append(producer)
            for queue in range(QUEUES):
                for client in range(CLIENTS_PER_QUEUE):
                    name = f"{self._topic}.c{number}{queue}{client}"
                    self._tasks.append(asyncio.create_task(self._send(producer, name, queue)))
        for number in range(READERS):
            reader = QueueReader(self._name_servers)
            await reader.start()
            self._readers.append(reader)
            for queue in range(QUEUES):
                self._readings.append(asyncio.create_task(self._read(reader, f"r{number}", queue)))

    async def end(self) -> None:
        """Let all end, and wait until each send has its outcome."""
        self._ends.set()
        await asyncio.gather(*self._tasks)
        for reading in self._readings:
            reading.cancel()
        await asyncio.gather(*self._readings, return_exceptions=True)
        for producer in self._producers:
            await producer.close()
        for reader in self._readers:
            await reader.close()

    async def _send(self, producer: Producer, client: str, queue: int) -> None:
        """Send batches one after another: singles, and several that are handed over together."""
        to = MessageQueue(self._topic, self._broker_name, queue)
        number = batch = 0
        while not self._ends.is_set():
            count = BATCH if batch % 4 == 0 else 1
            sends = [
                Send(client, batch, f"{client}-{number + place}", queue) for place in range(count)
            ]
            number, batch = number + count, batch + 1
            self._history.sends += sends
            await asyncio.gather(*[self._one(producer, send, to) for send in sends])
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ends.wait(), PAUSE_S)

    async def _one(self, producer: Producer, send: Send, to: MessageQueue) -> None:
        try:
            result = await producer.send(
                Message(self._topic, send.value.encode()), message_queue=to
            )
        except SendError as error:
            send.outcome = Outcome.UNKNOWN if error.outcome_unknown else Outcome.REFUSED
            return
        send.queue_offset = result.queue_offset
        send.commit_log_offset = result.commit_log_offset
        send.broker, send.repeated = result.broker_address, result.duplicate
        send.outcome = Outcome.STORED

    async def _read(self, reader: QueueReader, name: str, queue_id: int) -> None:
        """Read a queue on and on, each time from where it was."""
        queue = MessageQueue(self._topic, self._broker_name, queue_id)
        position = 0
        while True:
            try:
                bounds = await reader.bounds(self._topic)
                end = bounds[queue][1] if queue in bounds else 0
                async for columns in reader.read_range(queue, position, max(position, end)):
                    entries = [
                        Entry(message.queue_offset, bytes(message.body).decode())
                        for message in columns.iter_messages()
                    ]
                    if entries:
                        self._history.polls.append(Poll(name, queue_id, entries))
                        position = entries[-1].queue_offset + 1
            except ArianeError:
                pass  # Nobody answers now; it is asked again.
            await asyncio.sleep(PAUSE_S)


async def read_all(name_servers: str, topic: str) -> dict[int, list[Entry]]:
    """What each queue of a topic holds, from its beginning.

    Raises:
        ArianeError: Nobody answers.
    """
    found: dict[int, list[Entry]] = {}
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            entries = found.setdefault(queue.queue_id, [])
            async for columns in reader.read_range(queue, begin, end):
                entries += [
                    Entry(message.queue_offset, bytes(message.body).decode())
                    for message in columns.iter_messages()
                ]
    return found
