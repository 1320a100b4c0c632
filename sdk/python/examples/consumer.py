"""Consumes orders as a member of a group, until Ctrl-C. Start several, and they share the queues.

Run it beside ``ariane dev`` and ``producer.py``::

    python sdk/python/examples/consumer.py
"""

# ruff: noqa: INP001, T201 - an example is a script, and prints.

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from ariane_sdk import PushConsumer, ReceivedMessage

TOPIC = "orders"


async def listen(messages: Sequence[ReceivedMessage]) -> None:
    """Get messages of one queue, in order. Raising means: again, a little later."""
    first = messages[0]
    print(f"{len(messages):4} from {first.message_queue}: {bytes(first.body[:40])!r} [{first.tag}]")


async def main(name_servers: str) -> None:
    """Consume until Ctrl-C or SIGTERM; what is in work is finished and remembered."""
    consumer = PushConsumer(
        name_servers,
        group="billing",
        subscriptions={TOPIC: "*"},
        listener=listen,
        start="earliest",
    )
    async with consumer:
        await consumer.wait_assigned()
        print(f"queues that are ours: {len(consumer.assignment)}")
        await consumer.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
