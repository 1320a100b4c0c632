"""Publishing: events become messages and go out in batches, in order."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ariane_sdk import Message, Producer, SendResult
from flight_demo.events import FlightEvent
from flight_demo.stages import Stage

BATCH = 4000
"""Messages handed to the producer at once."""


class Sabotage(enum.Enum):
    """A fault made on purpose, to see that the totals notice."""

    LOSE = "lose"
    """One event is not published."""

    REPEAT = "repeat"
    """One event is published twice."""

    SWAP = "swap"
    """Two events of one aircraft change places."""


async def publish(
    producer: Producer, topic: str, events: Iterable[FlightEvent], stage: Stage
) -> int:
    """Publish `events` in their order and return how many were acknowledged.

    While a batch is on its way the next one is made; it leaves when the batch before it is
    acknowledged, which keeps each message group in order.
    """
    acknowledged = 0
    on_its_way: asyncio.Task[Sequence[SendResult]] | None = None
    messages = (
        Message(
            topic,
            event.body,
            event.tag,
            (event.key,),
            event.message_group,
            properties=event.properties or {},
        )
        for event in events
    )
    while batch := list(islice(messages, BATCH)):
        if on_its_way is not None:
            acknowledged += len(await on_its_way)
            stage.reach(acknowledged)
        on_its_way = asyncio.create_task(_send(producer, batch))
        # Let the batch reach the wire before the loop is busy with the next one.
        await asyncio.sleep(0)
    if on_its_way is not None:
        acknowledged += len(await on_its_way)
        stage.reach(acknowledged)
    return acknowledged


async def _send(producer: Producer, batch: list[Message]) -> Sequence[SendResult]:
    return await producer.send_batch(batch)


def sabotaged(events: Iterable[FlightEvent], sabotage: Sabotage) -> Iterator[FlightEvent]:
    """Yield `events` with one fault among those of the first aircraft."""
    group: str | None = None
    held: FlightEvent | None = None
    done = False
    for event in events:
        if done or (group is not None and event.message_group != group):
            yield event
            continue
        group = event.message_group
        if sabotage is Sabotage.SWAP and held is None:
            held = event
            continue
        done = True
        if sabotage is Sabotage.LOSE:
            continue
        yield event
        yield held if held is not None else event
