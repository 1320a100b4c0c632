"""The stream of one producer to one queue, and the batches that are known of it."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

BATCHES_KEPT: Final = 5
"""Batches of a stream whose results are kept: more than a producer has in flight."""


class StoredBatch(NamedTuple):
    """A stored batch."""

    first_sequence: int
    """Sequence number of its first message in the stream."""
    record_count: int
    """Number of records."""
    first_queue_offset: int
    """Queue offset of its first record."""
    commit_log_offset: int
    """Commit-log offset of its start."""
    next_commit_log_offset: int
    """Commit-log offset of its end."""
    store_timestamp_ms: int
    """When it was stored."""

    @property
    def next_sequence(self) -> int:
        """Sequence number of the message behind it."""
        return self.first_sequence + self.record_count

    @property
    def size_bytes(self) -> int:
        """Bytes of its records."""
        return self.next_commit_log_offset - self.commit_log_offset


class Stream(NamedTuple):
    """The stream of one producer to one queue."""

    epoch: int
    """The epoch of the batches."""
    batches: tuple[StoredBatch, ...]
    """The last batches, oldest first; none if it has not begun."""
    user: str | None = None
    """Who began it; None if that was not asked yet, and empty for nobody known, which it stays also
    if the broker is closed later."""

    @property
    def last_used_ms(self) -> int:
        """When its last batch was stored, milliseconds since the epoch."""
        return self.batches[-1].store_timestamp_ms


StreamKey: TypeAlias = tuple[int, str, int]
"""Producer id, topic, queue id."""

Owner: TypeAlias = tuple[str, str]
"""Whom a stream counts for: a user, or the topic where none is known; the other one is empty."""


def owner_of(key: StreamKey, stream: Stream) -> Owner:
    """Whom a stream counts for."""
    return (stream.user, "") if stream.user else ("", key[1])
