"""A producer process: ``python -m message_soak.producing NAME NAME_SERVERS TOPIC LEDGER RATE``.

Sends small batches until it is told to stop, and writes down what it knows of each message.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.errors import ArianeError, BatchSendError
from message_soak.ledger import LedgerFile, SentLedger, message_group

BATCH: Final = 20
BATCHES_IN_FLIGHT: Final = 4


async def produce(
    name: str, name_servers: str, topic: str, path: Path, rate: float, stop: asyncio.Event
) -> None:
    """Send until ``stop`` is set; ``rate`` is in messages a second."""
    number = SentLedger.read(path).next_number
    ledger = LedgerFile(path)
    room = asyncio.Semaphore(BATCHES_IN_FLIGHT)
    settings = ProducerSettings(send_timeout_s=30.0)
    async with Producer(name_servers, settings=settings) as producer, asyncio.TaskGroup() as tasks:

        async def send(numbers: range) -> None:
            messages = [
                Message(
                    topic,
                    f"{name}.{each}".encode(),
                    message_group=message_group(name, each),
                    keys=(f"{name}.{each}",),
                )
                for each in numbers
            ]
            try:
                await producer.send_batch(messages)
                ledger.write(f"a {each}" for each in numbers)
            except BatchSendError as error:
                ledger.write(
                    f"{outcome(result)} {each}"
                    for each, result in zip(numbers, error.outcomes, strict=True)
                )
            except ArianeError as error:
                ledger.write(f"{outcome(error)} {each}" for each in numbers)
            finally:
                room.release()

        while not stop.is_set():
            await room.acquire()
            numbers = range(number, number + BATCH)
            number += BATCH
            ledger.write(f"i {each}" for each in numbers)
            tasks.create_task(send(numbers))
            try:
                async with asyncio.timeout(BATCH / rate):
                    await stop.wait()
            except TimeoutError:
                continue
    ledger.close()


def outcome(result: object) -> str:
    """The letter of the ledger for what became of one message."""
    if not isinstance(result, BaseException):
        return "a"
    return "u" if getattr(result, "outcome_unknown", True) else "r"


async def main() -> None:
    """Run until SIGTERM."""
    name, name_servers, topic, path, rate = sys.argv[1:]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await produce(name, name_servers, topic, Path(path), float(rate), stop)


if __name__ == "__main__":
    asyncio.run(main())
