"""Deleting old segments: by age in the hour for it, at any hour when the disk fills up.

::

    disk in use    0            75 %              85 %              90 %          100 %
                   |-------------|-----------------|-----------------|-------------|
                   old segments   old segments go   the oldest go,    writes are
                   go at 04:00    at any hour       however young     refused

The segment that is written is never deleted. Only what is flushed and dispatched goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from typing import Final

from ariane_record import SystemFlag
from ariane_record.layout import HEADER, IPV6_EXTRA_BYTES, MAGIC_V1, MAGIC_V2, SYSTEM_FLAG_START
from ariane_storage.clock import Clock
from ariane_storage.commit_log import CommitLog
from ariane_storage.config import StoreConfig
from ariane_storage.disk import Disk
from ariane_storage.fields import FIELD_STARTS
from ariane_storage.segment import Segment

_STORE_TIMESTAMP_START: Final = FIELD_STARTS["store_timestamp"]
_unpack_front = Struct(">iI").unpack_from
_unpack_flag = Struct(">i").unpack_from
_unpack_timestamp = Struct(">q").unpack_from


class RetentionReason(StrEnum):
    """Why segments were deleted."""

    AGE = "age"
    DISK_CLEAN = "disk above the clean ratio"
    DISK_FORCE = "disk above the force ratio"


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What one pass has done.

    Attributes:
        deleted: Commit-log offsets at which deleted segments started.
        reason: Why, or None if nothing was deleted.
        disk_ratio: Share of the disk in use afterwards.
        min_offset: First commit-log offset that is kept now.
    """

    deleted: tuple[int, ...]
    reason: RetentionReason | None
    disk_ratio: float
    min_offset: int


def first_store_timestamp(segment: Segment) -> int | None:
    """Store timestamp of the first record of a segment in milliseconds, or None if it has none."""
    view = segment.view
    if len(view) < HEADER.itemsize:
        return None
    _, magic = _unpack_front(view)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    (flag,) = _unpack_flag(view, SYSTEM_FLAG_START)
    shift = IPV6_EXTRA_BYTES if flag & SystemFlag.BORN_HOST_IPV6 else 0
    timestamp: int = _unpack_timestamp(view, _STORE_TIMESTAMP_START + shift)[0]
    return timestamp


def delete_old_segments(
    log: CommitLog,
    disk: Disk,
    clock: Clock,
    config: StoreConfig,
    *,
    now_ms: int,
    safe_end: int,
    before_delete: Callable[[int], None],
) -> RetentionReport:
    """Delete what is old enough, a batch at most.

    Args:
        log: The commit log.
        disk: Says how full it is.
        clock: Says which hour it is.
        config: Age, hour, ratios and batch.
        now_ms: The time.
        safe_end: Nothing at or above this commit-log offset is deleted.
        before_delete: Told where the log will begin, before each deletion.
    """
    deleted: list[int] = []
    reason: RetentionReason | None = None
    ratio = disk.usage(log.folder).ratio
    hour = clock.local_hour(now_ms) == config.delete_at_hour
    while len(deleted) < config.delete_batch_max and len(log.segments) > 1:
        oldest, *behind = log.segments
        following = behind[0]
        if oldest.end > min(safe_end, log.write_offset):
            break
        newest_ms = _newest_ms(behind)
        expired = newest_ms is not None and now_ms - newest_ms > config.retention_ms
        if ratio >= config.disk_force_ratio:
            why = RetentionReason.DISK_FORCE
        elif expired and ratio >= config.disk_clean_ratio:
            why = RetentionReason.DISK_CLEAN
        elif expired and hour:
            why = RetentionReason.AGE
        else:
            break
        reason = reason or why
        before_delete(following.start)
        deleted.append(log.remove_oldest().start)
        ratio = disk.usage(log.folder).ratio
    return RetentionReport(tuple(deleted), reason, ratio, log.min_offset)


def _newest_ms(behind: list[Segment]) -> int | None:
    """When the last record of a segment was stored at the latest: when one behind it began.

    None if none of them says: a segment of unknown age is kept.
    """
    return next(filter(None, map(first_store_timestamp, behind)), None)
