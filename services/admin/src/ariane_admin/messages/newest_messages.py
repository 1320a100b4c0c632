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
    found.sort(key=_stored_order)
    return found[-count:] if count else []


def _stored_order(message: ReceivedMessage) -> tuple[datetime, str, int]:
    """What messages are sorted by: time, then the broker's own order."""
    return message.store_time, message.message_queue.broker_name, message.commit_log_offset
