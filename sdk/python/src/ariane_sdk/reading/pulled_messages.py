"""The answer to a read of one queue at an offset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from ariane_record.decoding.columns import RecordColumns
from ariane_sdk.checks.queue_arguments import checked_count, checked_offset, checked_queue
from ariane_sdk.errors import QueueNotFound
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class PulledMessages:
    """Messages of a queue from an offset on, and where the queue begins and ends.

    RocketMQ: ``PullResult``.
    """

    messages: Sequence[ReceivedMessage]
    """In the order of the queue; none at the end, or where the offset is out of bounds."""
    next_offset: int
    """Where to read on: the nearest offset that can be read, if the one that was asked for
    cannot."""
    min_offset: int
    """The oldest queue offset that is kept."""
    max_offset: int
    """The readable end, exclusive, when it was asked for."""


class _Reader(Protocol):
    """What a reader of queues offers."""

    async def bounds(
        self, topic: str, *, broker_names: Collection[str] = ()
    ) -> dict[MessageQueue, tuple[int, int]]: ...

    def read_range(
        self, queue: MessageQueue, begin: int, end: int
    ) -> AsyncIterator[RecordColumns]: ...


async def pull_messages(
    reader: _Reader, queue: MessageQueue, queue_offset: int, count_max: int
) -> PulledMessages:
    """Read messages of a queue from an offset on; see ``QueueReader.pull``."""
    wanted = checked_offset(queue_offset)
    checked_count("count_max", count_max)
    bounds = await reader.bounds(checked_queue(queue).topic, broker_names=[queue.broker_name])
    if queue not in bounds:
        raise QueueNotFound(f"no broker that lives has {queue} to read", retriable=True)
    low, high = bounds[queue]
    begin = min(max(low, wanted), high)
    end = min(high, begin + count_max) if begin == wanted else begin
    messages = [
        ReceivedMessage(view, queue)
        async for columns in reader.read_range(queue, begin, end)
        for view in columns.iter_messages()
    ]
    return PulledMessages(messages, end, low, high)
