"""Counts of messages, bytes and calls since the broker's start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from ariane_broker.queue_key import QueueKey


def no_histogram(seconds: float) -> None:
    """Record nothing."""


@dataclass(slots=True)
class BrokerStatistics:
    """Counters of one broker process; they only grow."""

    stored_message_count: int = 0
    """Stored records, of messages and of the system."""
    stored_bytes: int = 0
    """Bytes of these records."""
    stored_batch_count: int = 0
    """Stored batches."""
    pulled_message_count: int = 0
    """Messages handed out."""
    pulled_bytes: int = 0
    """Bytes of the records handed out."""
    append_seconds: float = 0.0
    """Time spent appending."""
    vanished_member_count: int = 0
    """Members of groups whose stream broke without a goodbye."""
    counted_death_count: int = 0
    """Deaths of members that were counted against a message."""
    set_back_offset_count: int = 0
    """Consumer offsets and positions that lay beyond the kept end of the log, and were set back."""
    lost_message_count: int = 0
    """Damaged messages that were reported to readers and passed over; each time."""
    expired_counts: Counter[tuple[str, QueueKey]] = field(default_factory=Counter)
    """Messages that were passed over because they had expired, by group and queue."""
    read_count: int = 0
    """Reads of queues, each of some messages or none."""
    cold_fetch_count: int = 0
    """Fetches of bytes that reads did not find in memory."""
    cold_bytes: int = 0
    """The bytes that these reads wanted."""
    record_append: Callable[[float], object] = no_histogram
    """Takes how long each append took, in seconds."""
    record_look: Callable[[float], object] = no_histogram
    """Takes how long each look at queues took, in seconds."""

    def count_append(
        self, message_count: int, size_bytes: int, seconds: float, *, batch_count: int = 1
    ) -> None:
        """Count one stored batch, or several stored at once."""
        self.stored_batch_count += batch_count
        self.stored_message_count += message_count
        self.stored_bytes += size_bytes
        self.append_seconds += seconds
        if self.record_append is not no_histogram:
            self.record_append(seconds)

    def count_expired(self, group: str, queue: QueueKey, message_count: int) -> None:
        """Count messages of a queue that a group was not given because they had expired."""
        if message_count:
            self.expired_counts[group, queue] += message_count

    def forget_expired(
        self, *, groups: Container[str] = (), topics: Container[str] = ()
    ) -> Iterator[None]:
        """Forget what was counted of deleted groups and topics; yields once for each count."""
        for group, queue in list(self.expired_counts):
            if group in groups or queue.topic in topics:
                self.expired_counts.pop((group, queue), None)
            yield None

    def count_pull(self, message_count: int, size_bytes: int) -> None:
        """Count records of one queue that were handed out."""
        self.pulled_message_count += message_count
        self.pulled_bytes += size_bytes
