"""The topic that Spark writes: one message for each carrier, and for each of its months."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ariane_sdk import PushConsumer, ReceivedMessage
from flight_demo.closed_form import DelayStatistics
from flight_demo.errors import GroupStalled
from flight_demo.stages import Stage

_SILENCE_SECONDS = 20.0


@dataclass(slots=True)
class ReceivedStatistics:
    """What came out of the topic."""

    by_key: dict[str, DelayStatistics] = field(default_factory=dict)
    duplicates: int = 0

    def take(self, message: ReceivedMessage) -> None:
        """Book one message."""
        statistics = statistics_of(bytes(message.body))
        if statistics.key in self.by_key:
            self.duplicates += 1
        self.by_key[statistics.key] = statistics

    def total(self, count: str) -> int:
        """Return the sum of a count over the carriers, months left out."""
        return sum(getattr(each, count) for each in self.by_key.values() if each.month is None)

    def differing_from(self, expected: Mapping[str, DelayStatistics]) -> int:
        """Return how many of `expected` are missing or say something else."""
        return sum(
            key not in self.by_key or not self.by_key[key].agrees_with(statistics)
            for key, statistics in expected.items()
        )


def statistics_of(body: bytes) -> DelayStatistics:
    """Read a message's body."""
    fields = json.loads(body)
    return DelayStatistics(
        carrier=fields["carrier"],
        # Spark leaves out what is null.
        month=fields.get("month"),
        flights=fields["flights"],
        departed=fields["departed"],
        cancelled=fields["cancelled"],
        mean_departure_delay=fields.get("mean_departure_delay"),
        p90_departure_delay=fields.get("p90_departure_delay"),
    )


async def consume_statistics(
    name_servers: str, topic: str, group: str, message_count: int, stage: Stage
) -> ReceivedStatistics:
    """Consume `message_count` messages of `topic`.

    Raises:
        GroupStalled: Fewer came, and nothing new for a while.
    """
    received = ReceivedStatistics()
    count = 0
    news = asyncio.Event()

    async def book(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal count
        for message in messages:
            received.take(message)
        count += len(messages)
        news.set()

    async with PushConsumer(
        name_servers, group=group, subscriptions={topic: "*"}, listener=book, start="earliest"
    ):
        while count < message_count:
            news.clear()
            try:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    await news.wait()
            except TimeoutError as error:
                raise GroupStalled(
                    f"{count:,} of {message_count:,} messages came out of {topic}"
                ) from error
            stage.reach(count)
    return received
