"""Sends orders: one by one, many at once, in order per customer.

Run it beside ``ariane dev``::

    python sdk/python/examples/producer.py
"""

# ruff: noqa: INP001, T201 - an example is a script, and prints.

from __future__ import annotations

import asyncio
import sys

from ariane_sdk import ClusterClient, Message, Producer
from ariane_sdk.errors import SendError

TOPIC = "orders"


async def main(name_servers: str) -> None:
    """Send some messages to a topic, which is created if need be."""
    async with ClusterClient(name_servers) as cluster:
        await cluster.create_topic(TOPIC, exists_ok=True)
    async with Producer(name_servers, group="shop") as producer:
        # One message: where it is now, and how safe.
        result = await producer.send(Message(TOPIC, b"a teapot", tag="created", keys=("order-1",)))
        print(f"{result.unique_id} is at {result.queue_offset} of {result.message_queue}")

        # Many sends at once share calls to the brokers by themselves.
        steps = ("created", "paid", "shipped")
        await asyncio.gather(
            *(
                producer.send(
                    Message(
                        TOPIC,
                        f"{step} by customer {customer}".encode(),
                        tag=step,
                        message_group=f"customer-{customer}",
                    )
                )
                for step in steps
                for customer in range(100)
            )
        )
        print("300 messages, in order for each customer")

        # A batch that is there already.
        results = await producer.send_batch([Message(TOPIC, b"x" * 1024) for _ in range(1000)])
        print(f"{len(results)} messages in one batch")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
    except SendError as error:
        sys.exit(f"not sent: {error} (may be stored: {error.outcome_unknown})")
