"""Counts of messages, bytes and calls since the broker's start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BrokerStatistics:
    """Counters of one broker process; they only grow.

    Attributes:
        stored_message_count: Stored records, of messages and of the system.
        stored_bytes: Bytes of these records.
        stored_batch_count: Stored batches.
        pulled_message_count: Messages handed out.
        pulled_bytes: Bytes of the records handed out.
        append_seconds: Time spent appending.
        vanished_member_count: Members of groups whose stream broke without a goodbye.
        counted_death_count: Deaths of members that were counted against a message.
        set_back_offset_count: Consumer offsets and positions that lay beyond the kept end of the
            log, and were set back.
        lost_message_count: Damaged messages that readers were told of and passed over; each time.
        cold_fetch_count: Fetches of bytes that reads did not find in memory.
        cold_bytes: The bytes that these reads wanted.
    """

    stored_message_count: int = 0
    stored_bytes: int = 0
    stored_batch_count: int = 0
    pulled_message_count: int = 0
    pulled_bytes: int = 0
    append_seconds: float = 0.0
    vanished_member_count: int = 0
    counted_death_count: int = 0
    set_back_offset_count: int = 0
    lost_message_count: int = 0
    cold_fetch_count: int = 0
    cold_bytes: int = 0

    def count_append(
        self, message_count: int, size_bytes: int, seconds: float, *, batch_count: int = 1
    ) -> None:
        """Count one stored batch, or several stored at once."""
        self.stored_batch_count += batch_count
        self.stored_message_count += message_count
        self.stored_bytes += size_bytes
        self.append_seconds += seconds

    def count_pull(self, message_count: int, size_bytes: int) -> None:
        """Count records of one queue that were handed out."""
        self.pulled_message_count += message_count
        self.pulled_bytes += size_bytes
