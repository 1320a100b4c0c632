"""A consumer process: ``python -m message_soak.consuming GROUP NAME_SERVERS TOPIC LEDGER``.

A group whose name begins with ``ordered`` consumes its queues in order, under locks; one whose name
holds the name of a strategy shares its queues by that one. One whose name begins with ``receiving``
owns no queues: it receives and acknowledges.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from ariane_sdk import PushConsumer, ReceiveConsumer, ReceivedMessage
from ariane_sdk.errors import ArianeError, CallError
from message_soak.ledger import LedgerFile, settled_path, stalled_path
from message_soak.strategies import strategy_of

START_RETRIES: Final = 10
INVISIBLE_S: Final = 30.0
"""So late comes what a killed member of a receiving group had in hand."""
PAUSE_S: Final = 1.0
LOOK_S: Final = 0.5
"""How often a process looks whether it gets to run."""
LATE_S_MIN: Final = 0.5
"""Who stands still for less than that is not late."""


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


async def receive(
    group: str, name_servers: str, topic: str, path: Path, stop: asyncio.Event
) -> None:
    """Receive and acknowledge until ``stop`` is set."""
    receiving = asyncio.create_task(_receive(group, name_servers, topic, path))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
    receiving.cancel()
    try:
        await receiving
    except asyncio.CancelledError:
        stopping.cancel()


async def _receive(group: str, name_servers: str, topic: str, path: Path) -> None:
    received, settled = LedgerFile(path), LedgerFile(settled_path(path))
    consumer = ReceiveConsumer(
        name_servers, group=group, subscriptions={topic: "*"}, invisible_s=INVISIBLE_S
    )
    async with consumer:
        while True:
            try:
                async with aclosing(consumer.batches()) as batches:
                    async for batch in batches:
                        lines = list(_lines_of(batch))
                        received.write(lines)
                        await consumer.ack(*batch)
                        settled.write(lines)
            except ArianeError as error:
                # What was not acknowledged comes again.
                print(f"asks again: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(PAUSE_S)


def _lines_of(batch: Sequence[ReceivedMessage]) -> Iterator[str]:
    """Lines of the ledger, with the attempt of each message."""
    now_ns = time.monotonic_ns()
    for receipt, run in groupby(batch, attrgetter("receipt")):
        messages = list(run)
        queue = receipt.message_queue
        for message in messages:
            yield (
                f"{now_ns} {queue.broker_name}/{queue.queue_id} {message.queue_offset}"
                f" {bytes(message.body).decode()} {receipt.attempts + 1}"
            )


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


async def watch_stalls(path: Path) -> None:
    """Note when this process did not get to run: what others make of that is not its fault."""
    ledger, before_ns = LedgerFile(path), time.monotonic_ns()
    while True:
        await asyncio.sleep(LOOK_S)
        now_ns = time.monotonic_ns()
        late_s = (now_ns - before_ns) / 1e9 - LOOK_S
        if late_s >= LATE_S_MIN:
            ledger.write([f"{now_ns} {late_s:.3f}"])
        before_ns = now_ns


async def main() -> None:
    """Run until SIGTERM."""
    group, name_servers, topic, path = sys.argv[1:]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    run = receive if group.startswith("receiving") else consume
    watching = asyncio.create_task(watch_stalls(stalled_path(Path(path))))
    try:
        await run(group, name_servers, topic, Path(path), stop)
    finally:
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(main())
