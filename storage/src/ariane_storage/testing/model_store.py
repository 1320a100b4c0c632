"""A model of a store in forty lines of plain Python, to compare the real one with.

The model is slow, in memory, and obviously right: a list of messages in the order of the log. All
other results are computed from it each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """One message as it was appended."""

    topic: str
    """Its topic."""
    queue_id: int
    """Its queue."""
    queue_offset: int
    """Its place in the queue."""
    commit_log_offset: int
    """The start of its record, from the store."""
    size: int
    """Bytes of its record."""
    body: bytes
    """Its body."""
    tag: str
    """Its tag; empty for none."""
    keys: tuple[str, ...]
    """Its keys, including the unique id."""
    store_timestamp_ms: int
    """The time of storing, from the store."""

    @property
    def end(self) -> int:
        """The end of its record in the commit log."""
        return self.commit_log_offset + self.size


@dataclass(slots=True)
class ModelStore:
    """All messages of a store, in the order of the log."""

    messages: list[ModelMessage] = field(default_factory=list)
    """The kept messages."""
    next_queue_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next queue offset of each queue that was ever appended to."""

    def append(self, message: ModelMessage) -> None:
        """Append a message."""
        self.messages.append(message)
        self.next_queue_offsets[message.topic, message.queue_id] = message.queue_offset + 1

    def queue(self, topic: str, queue_id: int, readable_end: int) -> list[ModelMessage]:
        """Readable messages of a queue, in order."""
        return [
            message
            for message in self.messages
            if (message.topic, message.queue_id) == (topic, queue_id)
            and message.end <= readable_end
        ]

    def with_key(self, topic: str, key: str, readable_end: int) -> list[ModelMessage]:
        """Readable messages of a key, newest first."""
        return [
            message
            for message in reversed(self.messages)
            if message.topic == topic and key in message.keys and message.end <= readable_end
        ]

    def delete_topic(self, topic: str) -> None:
        """Delete the messages of a topic; its queues begin at 0 again."""
        self.messages = [message for message in self.messages if message.topic != topic]
        self.next_queue_offsets = {
            queue: end for queue, end in self.next_queue_offsets.items() if queue[0] != topic
        }

    def lose_tail(self, commit_log_end: int) -> None:
        """Drop the messages after the end of the log, as a power loss does."""
        lost = [message for message in self.messages if message.end > commit_log_end]
        self.messages = [message for message in self.messages if message.end <= commit_log_end]
        for message in reversed(lost):
            self.next_queue_offsets[message.topic, message.queue_id] = message.queue_offset

    def lose_head(self, commit_log_begin: int) -> None:
        """Drop the messages below an offset, as retention does."""
        self.messages = [
            message for message in self.messages if message.commit_log_offset >= commit_log_begin
        ]
