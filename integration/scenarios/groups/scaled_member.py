"""A member of a group that scales, as a process of its own; writes the numbers that it consumed.

Run as ``python scaled_member.py NAME_SERVERS GROUP TOPIC``. Lines on standard output: ``ready``
once it has queues, then a number for each message. SIGTERM makes it leave the group in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from ariane_sdk import PushConsumer, ReceivedMessage

BATCH_SIZE = 16


async def _listen(messages: Sequence[ReceivedMessage]) -> None:
    # As long as a quick write to a database takes.
    await asyncio.sleep(0.005)
    os.write(1, b"".join(message.body + b"\n" for message in messages))


async def _run(name_servers: str, group: str, topic: str) -> None:
    consumer = PushConsumer(
        name_servers,
        group=group,
        subscriptions={topic: "*"},
        listener=_listen,
        start="earliest",
        batch_size=BATCH_SIZE,
    )
    asked_to_leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_leave.set)
    async with consumer:
        await consumer.wait_assigned()
        while not (consumer.assignment or asked_to_leave.is_set()):  # noqa: ASYNC110 - nobody tells.
            await asyncio.sleep(0.05)
        os.write(1, b"ready\n")
        await asked_to_leave.wait()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
