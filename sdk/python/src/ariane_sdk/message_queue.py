"""The name of a queue: light to import for code that reads no messages."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One ordered shard of a topic on one broker; sorts by topic, broker, queue."""

    topic: str
    """The topic."""
    broker_name: str
    """The broker that holds it."""
    queue_id: int
    """Its number within topic and broker, from 0."""

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}#{self.queue_id}"
