"""Late departures from one airport, found by filters: of a million events some thousands come.

A condition and an uploaded WebAssembly module look at the properties of an event, a function of the
consumer and an uploaded one into its body. Each must let through as many events as the flights
alone say, and none that is another.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Final

from ariane_sdk import Local, PullConsumer, QueueReader, ReceivedMessage, Sql, Uploaded
from flight_demo.flights import Flight
from flight_demo.stages import Stage

AIRPORT: Final = "JFK"
MINUTES: Final = 60
CONDITION: Final = f"origin = '{AIRPORT}' AND dep_delay > {MINUTES}"

POLL_COUNT: Final = 4000
POLL_S: Final = 0.2
"""After so long without a message it is worth asking whether the group has come to the end."""

SECONDS_MAX: Final = 300.0
"""How long a group may take: far longer than it does on any machine."""


def count_late(flights: Iterable[Flight]) -> int:
    """Count the departures that are wanted, from the flights alone."""
    return sum(
        flight.origin == AIRPORT
        and flight.departure_delay is not None
        and flight.departure_delay > MINUTES
        for flight in flights
    )


def is_late(message: ReceivedMessage) -> bool:
    """Whether an event is such a departure, as its body says."""
    body: Mapping[str, object] = json.loads(message.body)
    delay = body.get("departure_delay", 0)
    return body["origin"] == AIRPORT and isinstance(delay, int) and delay > MINUTES


def ways(uploaded: Mapping[str, Uploaded]) -> Mapping[str, Sql | Local | Uploaded]:
    """How events are filtered, by a name for people.

    Args:
        uploaded: What was uploaded, by such a name.
    """
    return {
        "SQL in the broker": Sql(CONDITION),
        "a function in the consumer": Local(is_late),
        **uploaded,
    }


async def consume_late(
    name_servers: str, topic: str, group: str, way: Sql | Local | Uploaded, stage: Stage
) -> tuple[int, int]:
    """Return how many events a way of filtering lets through, and how many of these are others."""
    count = strangers = 0
    async with (
        QueueReader(name_servers) as reader,
        PullConsumer(
            name_servers, group=group, subscriptions={topic: way}, start="earliest"
        ) as consumer,
        asyncio.timeout(SECONDS_MAX),
    ):
        bounds = await reader.bounds(topic)
        ends = {queue: end for queue, (begin, end) in bounds.items() if end > begin}
        while True:
            messages = await consumer.poll(POLL_COUNT, timeout_s=POLL_S)
            count += len(messages)
            strangers += sum(not is_late(message) for message in messages)
            stage.reach(count)
            if messages:
                continue
            # By itself it would store them within 5 s, for which the stage would wait.
            await consumer.commit(durable=False)
            if ends.items() <= (await reader.stored_offsets(group, topic)).items():
                return count, strangers
