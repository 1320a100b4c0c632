"""Deletion of old segments: by age at a set hour, or at any hour when the disk fills up.

::

    disk in use    0            75 %              85 %              90 %          100 %
                   |-------------|-----------------|-----------------|-------------|
                   old segments   old segments go   the oldest go,    writes are
                   go at 04:00    at any hour       however young     refused

The segment being written is never deleted. Only flushed and dispatched records are.

A segment's age follows from its records and from its file; the younger of the two counts, and times
in the future are ignored.

There are three steps, so that the loop never waits for the disk: any thread chooses segments and
the new begins of queues; the appending thread releases them between two reads; any thread deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from typing import Final

from ariane_record import SystemFlag
from ariane_record.layout import HEADER, IPV6_EXTRA_BYTES, MAGIC_V1, MAGIC_V2, SYSTEM_FLAG_START
from ariane_storage.config import StoreConfig
from ariane_storage.disk.clock import Clock
from ariane_storage.disk.disk import Disk
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.records.fields import FIELD_STARTS
from ariane_storage.log.segment import Segment
from ariane_storage.queues.consume_queue import ConsumeQueue

_STORE_TIMESTAMP_START: Final = FIELD_STARTS["store_timestamp"]
_unpack_front = Struct(">iI").unpack_from
_unpack_flag = Struct(">i").unpack_from
_unpack_timestamp = Struct(">q").unpack_from


class RetentionReason(StrEnum):
    """Why segments were deleted."""

    AGE = "age"
    DISK_CLEAN = "disk above the clean ratio"
    DISK_FORCE = "disk above the force ratio"
    COPIED = "deleted at the primary"


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """Deleted messages of one queue."""

    topic: str
    """The topic."""
    queue_id: int
    """The queue."""
    begin: int
    """The first queue offset."""
    end: int
    """Queue offset behind the last one: the new begin of the queue."""


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """The result of one pass."""

    deleted: tuple[int, ...]
    """Commit-log offsets at which deleted segments started."""
    reason: RetentionReason | None
    """Why the last of them was deleted, or None if none was: those deleted early come last."""
    disk_ratio: float
    """Share of the disk in use afterwards."""
    min_offset: int
    """First commit-log offset that is now kept."""
    ranges: tuple[DeletedRange, ...] = ()
    """The deleted messages."""
    stored_from_ms: int | None = None
    """When the oldest of them was stored; None if unknown."""
    stored_until_ms: int | None = None
    """When the newest of them was stored at the latest; None if unknown."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The plan of one pass."""

    segments: tuple[Segment, ...]
    """The segments to delete, oldest first."""
    reason: RetentionReason | None
    """Why the last of them is deleted, or None if none is."""
    min_offset: int
    """The new begin of the log."""
    queue_begins: tuple[tuple[ConsumeQueue, int], ...] = ()
    """The new begin of each queue, where it changes."""
    ranges: tuple[DeletedRange, ...] = ()
    """The messages to delete."""
    stored_from_ms: int | None = None
    """When the oldest of them was stored; None if unknown."""
    stored_until_ms: int | None = None
    """When the newest of them was stored at the latest; None if unknown."""


def first_store_timestamp(segment: Segment) -> int | None:
    """Store timestamp of the first record of a segment in milliseconds, or None if it has none."""
    front = segment.window(0, HEADER.itemsize + IPV6_EXTRA_BYTES)
    if front.unreadable or len(front.content) < HEADER.itemsize + IPV6_EXTRA_BYTES:
        return None
    _, magic = _unpack_front(front.content)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    (flag,) = _unpack_flag(front.content, SYSTEM_FLAG_START)
    shift = IPV6_EXTRA_BYTES if flag & SystemFlag.BORN_HOST_IPV6 else 0
    timestamp: int = _unpack_timestamp(front.content, _STORE_TIMESTAMP_START + shift)[0]
    return timestamp


def choose_segments(
    log: CommitLog,
    disk: Disk,
    clock: Clock,
    config: StoreConfig,
    *,
    now_ms: int,
    safe_end: int,
    by_hand: bool = False,
) -> RetentionPlan:
    """Choose segments that are old enough, a batch at most.

    Args:
        log: The commit log.
        disk: Measures the disk's use.
        clock: The clock, for the hour.
        config: Age, hour, ratios and batch.
        now_ms: The time.
        safe_end: Data from this commit-log offset on is not deleted.
        by_hand: An operator asks: all that are old enough, at any hour.
    """
    segments = log.segments
    chosen: list[Segment] = []
    reason: RetentionReason | None = None
    usage = disk.usage(log.folder)
    used_bytes = usage.used_bytes
    hour = by_hand or clock.local_hour(now_ms) == config.delete_at_hour
    batch_max = len(segments) if by_hand else config.delete_batch_max
    for place, oldest in enumerate(segments[:-1][:batch_max]):
        if oldest.end > min(safe_end, log.write_offset):
            break
        ratio = used_bytes / usage.total_bytes
        newest_ms = _newest_ms(disk, oldest, segments[place + 1 :], now_ms)
        expired = newest_ms is not None and now_ms - newest_ms > config.retention_ms
        if expired and ratio >= config.disk_clean_ratio:
            reason = RetentionReason.DISK_CLEAN
        elif expired and hour:
            reason = RetentionReason.AGE
        elif ratio >= config.disk_force_ratio:
            reason = RetentionReason.DISK_FORCE
        else:
            break
        chosen.append(oldest)
        used_bytes -= oldest.size
    if not chosen:
        return RetentionPlan((), None, log.min_offset)
    behind = segments[len(chosen) :]
    return RetentionPlan(
        tuple(chosen),
        reason,
        behind[0].start,
        stored_from_ms=_first_ms(tuple(chosen)),
        stored_until_ms=_first_ms(behind),
    )


def choose_copied(
    log: CommitLog, config: StoreConfig, *, delete_to: int, safe_end: int
) -> RetentionPlan:
    """Choose the segments that the primary of this copy has deleted, a batch at most.

    Args:
        log: The commit log.
        config: The batch.
        delete_to: The commit-log offset at which the primary's log begins.
        safe_end: Data from this commit-log offset on is not deleted.
    """
    segments, end = log.segments, min(delete_to, safe_end, log.write_offset)
    chosen = tuple(one for one in segments[:-1][: config.delete_batch_max] if one.end <= end)
    if not chosen:
        return RetentionPlan((), None, log.min_offset)
    behind = segments[len(chosen) :]
    return RetentionPlan(
        chosen,
        RetentionReason.COPIED,
        behind[0].start,
        stored_from_ms=_first_ms(chosen),
        stored_until_ms=_first_ms(behind),
    )


def _newest_ms(
    disk: Disk, segment: Segment, behind: tuple[Segment, ...], now_ms: int
) -> int | None:
    """When the last record of a segment was stored at the latest, ignoring future times.

    Uses the file's time and the first record behind it. None if neither is valid and no record has
    a time: a segment of unknown age is kept.
    """
    stamped_ms = _first_ms(behind)
    if stamped_ms is None:
        return None
    stamp = (stamped_ms, disk.modified_ms(segment.path))
    return max((ms for ms in stamp if ms is not None and ms <= now_ms), default=None)


def _first_ms(segments: tuple[Segment, ...]) -> int | None:
    """When the first record of some segments was stored; None if unknown."""
    return next(filter(None, map(first_store_timestamp, segments)), None)
