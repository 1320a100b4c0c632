"""Settings of a store: every number with its unit and origin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_HOUR_MS: Final = 3_600_000
_SECOND_MS: Final = 1000

DELAY_LEVELS_MS: Final = tuple(
    seconds * _SECOND_MS
    for seconds in (
        *(1, 5, 10, 30),
        *(minutes * 60 for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
        *(3600, 7200),
    )
)
"""``1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h``: level 1 first."""


class FlushMode(StrEnum):
    """The state that an acknowledgement waits for."""

    ASYNC = "async"
    """No wait: records reach the disk within the flush interval."""
    SYNC = "sync"
    """The flush of the record; until then it is not handed out either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How a store is laid out and kept; the defaults are RocketMQ's.

    File sizes are part of the format: a store must be opened with the sizes it was written with.
    """

    segment_bytes: int = 1 << 30
    """Length of a commit-log segment."""
    consume_queue_file_entries: int = 300_000
    """Entries of one consume-queue file."""
    index_slots: int = 5_000_000
    """Hash slots of an index file."""
    index_items: int = 20_000_000
    """Items of an index file; it is full one short of this."""
    flush_mode: FlushMode = FlushMode.ASYNC
    """The state that an acknowledgement waits for."""
    flush_interval_ms: int = 500
    """How often the commit log is flushed under ``FlushMode.ASYNC``."""
    flush_least_pages: int = 4
    """Pages of 4 KiB that must be waiting for such a flush."""
    flush_thorough_interval_ms: int = 10_000
    """How often the log is flushed even if few pages wait."""
    derived_interval_ms: int = 1000
    """The shortest time between two writes of consume queues, index and checkpoint. This bounds the
    work of recovery."""
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    """Address that is written into records, IPv4 or IPv6, and port."""
    record_bytes_max: int = (4 << 20) + (64 << 10)
    """Largest record: 4 MiB of body and 64 KiB around it."""
    files_open_max: int = 256
    """Consume-queue files that are kept open."""
    scan_entries_max: int = 800
    """Consume-queue entries that one filtered read looks at."""
    index_backlog_keys: int = 1 << 13
    """Keys that may wait to be filed in the index, 20 bytes each; an append that finds more files
    some first. May be larger where another thread files keys."""
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
    """Delay of each level of the delay topic, level 1 first."""
    retention_ms: int = 72 * _HOUR_MS
    """Age at which a segment may be deleted."""
    delete_at_hour: int = 4
    """Hour of the day, local time, in which old segments are deleted."""
    disk_clean_ratio: float = 0.75
    """Share of the disk in use at which old segments are deleted at any hour."""
    disk_force_ratio: float = 0.85
    """Share at which even young segments are deleted, oldest first."""
    disk_refuse_ratio: float = 0.90
    """Share at which writes are refused."""
    delete_batch_max: int = 10
    """Segments that one pass of retention deletes."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work together.

        Raises:
            ValueError: The message names the numbers.
        """
        positive = (
            *(self.segment_bytes, self.consume_queue_file_entries, self.index_slots),
            *(self.index_items, self.record_bytes_max, self.files_open_max),
            *(self.scan_entries_max, self.index_backlog_keys, self.delete_batch_max),
        )
        if min(positive) <= 0:
            raise ValueError("sizes and counts of a store are positive")
        if self.index_items < 2:
            raise ValueError("index_items must be 2 at least: item 0 is never used")
        if self.segment_bytes % 4096:
            raise ValueError("segment_bytes must be a multiple of the page size, 4096")
        if not 0 <= self.delete_at_hour <= 23:
            raise ValueError("delete_at_hour is an hour of the day, 0 to 23")
        if not 0 < self.disk_clean_ratio <= self.disk_force_ratio <= self.disk_refuse_ratio <= 1:
            raise ValueError("disk ratios must grow: clean, force, refuse, 1")
