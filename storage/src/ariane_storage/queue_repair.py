"""Settling what a read found wrong: a damaged record, or a damaged entry that leads astray.

Entries of consume queues have no checksum: a flipped bit shows when the record they lead to is not
the one that it should be. Their neighbours still say between which records of the log the right one
lies, and a record itself says which queue and queue offset it has. So that part of the log is
scanned once: damage in it is quarantined, and the entry becomes what the log says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane_storage.consume_queue import ConsumeQueue
from ariane_storage.consume_queue_entry import HOLE_SIZE, Entries, holes
from ariane_storage.damage import Damage, DamageReason
from ariane_storage.dispatch import Rows
from ariane_storage.fields import headers
from ariane_storage.parts import StoreParts
from ariane_storage.record_search import record_at
from ariane_storage.scan import Ending, scan

_NEIGHBOURS_MAX: Final = 1000


def settle_fault(parts: StoreParts, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Quarantine the record of an entry, or put the entry right.

    Args:
        parts: The store.
        queue: The queue.
        queue_offset: Of an entry whose record is not what it should be.

    Returns:
        Whether the entry is another one now, so that it is worth reading again.
    """
    entry = queue.entries(queue_offset, 1)
    commit_log_offset, size = int(entry["commit_log_offset"][0]), int(entry["size"][0])
    if 0 < size < HOLE_SIZE and parts.quarantine.covers(commit_log_offset):
        return False
    begin = _end_before(parts, queue, queue_offset)
    end = _begin_behind(parts, queue, queue_offset)
    found = _find(parts, queue, queue_offset, begin, end)
    if found is None:
        if size > 0 and parts.quarantine.covers(commit_log_offset):
            return False
        found = holes(1)
    queue.put(queue_offset, found)
    return True


def _find(
    parts: StoreParts, queue: ConsumeQueue, queue_offset: int, begin: int, end: int
) -> Entries | None:
    """The entry of a queue offset as a range of the log says, quarantining damage on the way."""
    topic = queue.topic.encode()
    for event in scan(parts.log.walk(begin), begin):
        if isinstance(event, Ending):
            written = parts.log.write_offset
            if event.commit_log_offset < written:
                # Damage with nothing valid behind it: here it is no torn tail, it was written.
                reason = event.reason or DamageReason.NOTHING
                parts.quarantine.add(Damage(event.commit_log_offset, written, reason))
            return None
        if not isinstance(event, Damage) and event.begin >= end:
            return None
        if isinstance(event, Damage):
            parts.quarantine.add(event)
            continue
        rows = Rows.of(event)
        for row in np.flatnonzero(rows.queue_offsets == queue_offset).tolist():
            if rows.topics[row] == topic and rows.queue_ids[row] == queue.queue_id:
                return rows.entries(np.array([row]), parts.config.delay_levels_ms)
    return None


def _end_before(parts: StoreParts, queue: ConsumeQueue, queue_offset: int) -> int:
    """Where the nearest sound record of the queue before a queue offset ends."""
    lowest = max(queue.min_offset, queue_offset - _NEIGHBOURS_MAX)
    for place in range(queue_offset - 1, lowest - 1, -1):
        record = _sound_record(parts, queue, place)
        if record is not None:
            return record[1]
    return parts.log.min_offset


def _begin_behind(parts: StoreParts, queue: ConsumeQueue, queue_offset: int) -> int:
    """Where the nearest sound record of the queue behind a queue offset starts."""
    highest = min(queue.end_offset, queue_offset + _NEIGHBOURS_MAX)
    for place in range(queue_offset + 1, highest):
        record = _sound_record(parts, queue, place)
        if record is not None:
            return record[0]
    return parts.log.write_offset


def _sound_record(
    parts: StoreParts, queue: ConsumeQueue, queue_offset: int
) -> tuple[int, int] | None:
    """Where the record of an entry lies, if it is the one that it should be."""
    entry = queue.entries(queue_offset, 1)[0]
    commit_log_offset = int(entry["commit_log_offset"])
    segment = parts.log.segment_at(commit_log_offset)
    if segment is None or not 0 < int(entry["size"]) < HOLE_SIZE:
        return None
    record = record_at(segment, commit_log_offset - segment.start)
    if record is None:
        return None
    header = headers(record, np.array([0]), 0)
    if int(header.field("queue_offset")[0]) != queue_offset:
        return None
    if int(header.field("queue_id")[0]) != queue.queue_id:
        return None
    return commit_log_offset, commit_log_offset + len(record)
