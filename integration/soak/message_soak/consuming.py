"""A consumer process: ``python -m message_soak.consuming GROUP NAME_SERVERS TOPIC LEDGER``.

A group whose name begins with ``ordered`` consumes its queues in order, under locks; one whose name
holds the name of a strategy shares its queues by that one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ariane_sdk import PushConsumer, ReceivedMessage
from ariane_sdk.errors import CallError
from message_soak.ledger import LedgerFile
from message_soak.strategies import strategy_of

START_RETRIES: Final = 10


async def consume(
    group: str, name_servers: str, topic: str, path: Path, stop: asyncio.Event
) -> None:
    """Consume until ``stop`` is set."""
    ledger = LedgerFile(path)

    async def listen(messages: Sequence[ReceivedMessage]) -> None:
        queue = messages[0].message_queue
        now_ns = time.monotonic_ns()
        ledger.write(
            f"{now_ns} {queue.broker_name}/{queue.queue_id} {message.queue_offset}"
            f" {bytes(message.body).decode()}"
            for message in messages
        )

    def new_consumer() -> PushConsumer:
        return PushConsumer(
            name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=listen,
            start="earliest",
            ordered=group.startswith("ordered"),
            strategy=strategy_of(group),
        )

    consumer = await started(new_consumer)
    try:
        await stop.wait()
    finally:
        await consumer.close()
    ledger.close()


async def started(new_consumer: Callable[[], PushConsumer]) -> PushConsumer:
    """A consumer that runs; on a busy machine brokers may take longer than one start waits."""
    for _ in range(START_RETRIES):
        consumer = new_consumer()
        try:
            await consumer.start()
        except CallError as error:
            print(f"started again: {error}", file=sys.stderr, flush=True)
        else:
            return consumer
    consumer = new_consumer()
    await consumer.start()
    return consumer


async def main() -> None:
    """Run until SIGTERM."""
    group, name_servers, topic, path = sys.argv[1:]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await consume(group, name_servers, topic, Path(path), stop)


if __name__ == "__main__":
    asyncio.run(main())
