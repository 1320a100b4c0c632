"""The newest messages of queues, by position."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ariane_sdk import MessageQueue, QueueReader, ReceivedMessage


async def newest_messages(
    reader: QueueReader, bounds: Mapping[MessageQueue, tuple[int, int]], count: int
) -> list[ReceivedMessage]:
    """The newest messages of all queues together, in the order in which they were stored.

    Args:
        reader: Reads them.
        bounds: The first queue offset, and that behind the last, of each queue.
        count: The most messages.

    Raises:
        CallError: A broker did not answer.
    """
    found: list[ReceivedMessage] = []
    for queue, (begin, end) in sorted(bounds.items()):
        async for columns in reader.read_range(queue, max(begin, end - count), end):
            found += (ReceivedMessage(view, queue) for view in columns.iter_messages())
    # Queues of one broker share a log; brokers only their clocks.
    found.sort(key=stored_order)
    return found[-count:] if count else []


async def bounds_between(
    reader: QueueReader,
    topic: str,
    begin: datetime | None,
    end: datetime | None,
    *,
    broker_name: str,
) -> dict[MessageQueue, tuple[int, int]]:
    """Where the messages of a time lie in the queues of one broker.

    Args:
        reader: Asks the broker.
        topic: The topic.
        begin: Stored at this time or later; None: from the oldest message on.
        end: Stored before this time; None: to the newest one.
        broker_name: The broker.

    Raises:
        CallError: The broker did not answer.
    """
    only = [broker_name]
    bounds = await reader.bounds(topic, broker_names=only)
    first = {} if begin is None else await reader.offsets_at(topic, begin, broker_names=only)
    behind = {} if end is None else await reader.offsets_at(topic, end, broker_names=only)
    return {
        queue: (max(oldest, first.get(queue, oldest)), min(newest, behind.get(queue, newest)))
        for queue, (oldest, newest) in bounds.items()
    }


def stored_order(message: ReceivedMessage) -> tuple[datetime, str, int]:
    """What messages are sorted by: time, then the broker's own order."""
    return message.store_time, message.message_queue.broker_name, message.commit_log_offset
