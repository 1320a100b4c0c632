"""Reads a topic without a group: nothing is stored anywhere, nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ariane_admin.client_warnings import say_warning
from ariane_admin.start_position import StartPosition
from ariane_sdk import MessageQueue, QueueReader, ReceivedMessage
from ariane_sdk.errors import (
    DeadlinePassed,
    NameServersUnreachable,
    RouteNotFound,
    ServiceUnavailable,
)

_POLL_SECONDS = 0.25
_WAIT_SECONDS = 1.0

_AWAY = (NameServersUnreachable, ServiceUnavailable, DeadlinePassed, RouteNotFound)
"""A broker that was away for minutes is in no route any more."""


async def tail(
    reader: QueueReader, topic: str, start: StartPosition, *, follow: bool
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of a topic, in order within each queue.

    Args:
        reader: A running reader.
        topic: The topic.
        start: Where to begin.
        follow: Whether to wait for more at the end of what is stored, and for brokers and name
            servers that are away once the first of them were there.
    """
    next_offsets = await _next_offsets(reader, topic, start)
    waiting = False
    while True:
        read_any = False
        try:
            for queue, (begin, end) in sorted((await reader.bounds(topic)).items()):
                # A queue that is new begins at its begin; what retention took away is passed over.
                first = max(next_offsets.get(queue, begin), begin)
                async for columns in reader.read_range(queue, first, end):
                    read_any = True
                    for view in columns.iter_messages():
                        next_offsets[queue] = view.queue_offset + 1
                        yield ReceivedMessage(view, queue)
                next_offsets[queue] = max(first, end)
            waiting = False
        except _AWAY as error:
            if not follow:
                raise
            if not waiting:
                say_warning(f"waiting: {error}")
            waiting = True
            await asyncio.sleep(_WAIT_SECONDS)
            continue
        if not read_any:
            if not follow:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _next_offsets(
    reader: QueueReader, topic: str, start: StartPosition
) -> dict[MessageQueue, int]:
    if start == "earliest":
        return {queue: begin for queue, (begin, _) in (await reader.bounds(topic)).items()}
    if start == "latest":
        return {queue: end for queue, (_, end) in (await reader.bounds(topic)).items()}
    return dict(await reader.offsets_at(topic, start))
