"""Reads a topic without a group: it stores no offset and affects no consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from ariane_admin.asking.answers import SILENT, Answers
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.queue_places import QueuePlaces
from ariane_admin.messages.start_position import StartPosition
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import LiveBroker, MessageQueue, QueueReader, ReceivedMessage
from ariane_sdk.errors import (
    DeadlinePassed,
    NameServersUnreachable,
    RouteNotFound,
    ServiceUnavailable,
)

_POLL_SECONDS = 0.25
_WAIT_SECONDS = 1.0

_AWAY = (NameServersUnreachable, ServiceUnavailable, DeadlinePassed, RouteNotFound)
"""Errors to wait through: a broker that is away for minutes is in no route any more."""


class Begin(NamedTuple):
    """Where reading begins, and ends."""

    start: StartPosition
    """The start position in queues without an offset."""
    queues: QueuePlaces = MappingProxyType({})
    """The queues to read, with their offsets or None; all queues if empty."""
    until: datetime | None = None
    """Where reading of what is stored ends: before messages of this time; None: at the end."""


async def follow(
    reader: QueueReader, topic: str, begin: Begin
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of a topic, in order within each queue, and wait for more.

    After the first messages, it waits for brokers and name servers that are away.
    """
    next_offsets = await _next_offsets(reader, topic, begin)
    async with aclosing(
        follow_from(reader, topic, next_offsets, named=bool(begin.queues))
    ) as messages:
        async for message in messages:
            yield message


async def follow_from(
    reader: QueueReader,
    topic: str,
    next_offsets: dict[MessageQueue, int],
    *,
    named: bool = False,
) -> AsyncGenerator[ReceivedMessage, None]:
    """As ``follow``, from known offsets on.

    Args:
        reader: A running reader.
        topic: The topic.
        next_offsets: The next offset of each queue; changed while reading.
        named: Whether to read no other queues; else new queues are read, from their begin.
    """
    waiting = False
    while True:
        read_any = False
        try:
            bounds = await reader.bounds(topic)
            read = _read(reader, bounds, next_offsets, named=named)
            async with aclosing(read) as messages:
                async for message in messages:
                    read_any = True
                    yield message
            waiting = False
        except _AWAY as error:
            if not waiting:
                say_warning(f"waiting: {reasoned(error)}")
            waiting = True
            await asyncio.sleep(_WAIT_SECONDS)
            continue
        if not read_any:
            await asyncio.sleep(_POLL_SECONDS)


async def read_stored(
    reader: QueueReader, topic: str, begin: Begin, answers: Answers
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the stored messages of a topic up to its end, in order within each queue.

    Args:
        reader: A running reader.
        topic: The topic.
        begin: Where to begin.
        answers: The brokers of the topic; brokers that do not answer are left out, even if they
            stop answering while they are read.

    Raises:
        CommandFailed: A named queue does not exist, or does not keep the offset.
        CallError: A broker returned an error, or no broker answers any longer.
    """
    _refuse_strangers(topic, begin, answers)

    async def begin_at(broker: LiveBroker) -> Mapping[MessageQueue, int]:
        return await _next_offsets(reader, topic, begin, [broker.broker_name])

    async def bounds_at(broker: LiveBroker) -> Mapping[MessageQueue, tuple[int, int]]:
        return await _bounds_at(reader, topic, begin, broker.broker_name)

    next_offsets = {q: first for each in await answers.ask(begin_at) for q, first in each.items()}
    read_any = True
    while read_any:
        read_any = False
        bounds = {q: both for each in await answers.ask(bounds_at) for q, both in each.items()}
        for queue, both in sorted(bounds.items()):
            if queue.broker_name in answers.unanswered:
                continue
            try:
                read = _read(reader, {queue: both}, next_offsets, named=bool(begin.queues))
                async with aclosing(read) as messages:
                    async for message in messages:
                        read_any = True
                        yield message
            except SILENT as error:
                answers.leave_out(queue.broker_name, error)


def _refuse_strangers(topic: str, begin: Begin, answers: Answers) -> None:
    """Refuse queues of brokers that do not have the topic.

    Raises:
        CommandFailed: One is named.
    """
    known = {one.broker_name for one in answers.brokers}
    for broker_name in sorted({each for each, _ in begin.queues}):
        if broker_name not in known:
            raise CommandFailed(f"topic {topic} is not on {broker_name}", ExitStatus.NOT_FOUND)


async def _bounds_at(
    reader: QueueReader, topic: str, begin: Begin, broker_name: str
) -> Mapping[MessageQueue, tuple[int, int]]:
    """The queues of a broker, each from its first message to where reading ends."""
    bounds = await reader.bounds(topic, broker_names=[broker_name])
    if begin.until is None:
        return bounds
    ends = await reader.offsets_at(topic, begin.until, broker_names=[broker_name])
    return {q: (first, min(last, ends.get(q, last))) for q, (first, last) in bounds.items()}


async def _read(
    reader: QueueReader,
    bounds: Mapping[MessageQueue, tuple[int, int]],
    next_offsets: dict[MessageQueue, int],
    *,
    named: bool,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages from the next offsets to the end; moves the next offsets on."""
    for queue, (begin, end) in sorted(bounds.items()):
        if named and queue not in next_offsets:
            continue
        # A new queue is read from its begin; messages removed by retention are skipped.
        first = max(next_offsets.get(queue, begin), begin)
        async for columns in reader.read_range(queue, first, end):
            for view in columns.iter_messages():
                next_offsets[queue] = view.queue_offset + 1
                yield ReceivedMessage(view, queue)
        next_offsets[queue] = max(first, end)


async def _next_offsets(
    reader: QueueReader, topic: str, begin: Begin, broker_names: Sequence[str] = ()
) -> dict[MessageQueue, int]:
    """The first offset to read in each queue.

    Raises:
        CommandFailed: A named queue does not exist, or does not keep the offset.
    """
    bounds = await reader.bounds(topic, broker_names=broker_names)
    if isinstance(begin.start, datetime):
        offsets = await reader.offsets_at(topic, begin.start, broker_names=broker_names)
    else:
        end = begin.start == "latest"
        offsets = {queue: both[end] for queue, both in bounds.items()}
    if not begin.queues:
        return offsets
    asked = {place for place in begin.queues if not broker_names or place[0] in broker_names}
    known = {(queue.broker_name, queue.queue_id): queue for queue in bounds}
    for place in sorted(asked):
        name = f"{place[0]}:{place[1]}"
        if place not in known:
            raise CommandFailed(f"topic {topic} has no queue {name}", ExitStatus.NOT_FOUND)
        wanted, (first, last) = begin.queues[place], bounds[known[place]]
        if wanted is not None and not first <= wanted <= last:
            raise CommandFailed(
                f"queue {name} of {topic} keeps {first:,} up to {last:,}, and not {wanted:,}",
                ExitStatus.REFUSED,
            )
        if wanted is not None:
            offsets[known[place]] = wanted
    return {known[place]: offsets[known[place]] for place in asked}
