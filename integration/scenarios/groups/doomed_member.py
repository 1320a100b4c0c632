"""A member of a group that one message kills; writes the number of each that it is done with.

Run as ``python doomed_member.py NAME_SERVERS GROUP TOPIC ORDERED POISON``. Upon a message with one
of the numbers POISON, joined by commas, the process is gone at once, without a word, as from a bug
in a library of C or for lack of memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from ariane_sdk import PushConsumer, PushSettings, ReceivedMessage

BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, offset_store_interval_s=0.2)


async def _run(name_servers: str, group: str, topic: str, ordered: str, poison: str) -> None:
    poisons = poison.encode().split(b",")

    async def listen(messages: list[ReceivedMessage]) -> None:
        await asyncio.sleep(0.001)
        for message in messages:
            if message.body in poisons:
                os.write(1, b"died\n")
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(1, message.body + b"\n")

    consumer = PushConsumer(
        name_servers,
        group=group,
        subscriptions={topic: "*"},
        listener=listen,
        start="earliest",
        batch_size=8,
        ordered=ordered == "ordered",
        settings=BRISK,
    )
    async with consumer:
        await consumer.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
