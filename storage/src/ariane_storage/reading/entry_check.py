"""Whether entries of a consume queue point to their own records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.records.queue_identity import QueueIdentity
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE, Entries
from ariane_storage.reading.read import is_record_of, sound_records
from ariane_storage.reading.selection import Selection

_LAST_ENTRIES: Final = 16


def is_lost(quarantine: Quarantine, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether the record of an entry is known to be damaged, and the entry itself is right.

    Args:
        quarantine: The damaged ranges of the log.
        queue: The queue.
        queue_offset: Queue offset of an entry whose record is not as it should be.
    """
    place, size, _ = queue.entry_at(queue_offset)
    if not (0 < size < HOLE_SIZE and quarantine.covers(place)):
        return False
    # A wrong entry may point into damage by chance. The right one fits between its neighbours.
    before = queue.last_message(max(queue.min_offset, queue_offset - 1), queue_offset)
    behind = queue.next_message(queue_offset + 1, min(queue.end_offset, queue_offset + 2))
    follows = before < max(queue.min_offset, queue_offset - 1) or queue.entry_at(before)[0] < place
    is_last = behind >= min(queue.end_offset, queue_offset + 2)
    return follows and (is_last or place < queue.entry_at(behind)[0])


def soundness(
    parts: StoreParts, queue: ConsumeQueue, queue_offset: int, entries: Entries
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which entries point to their records, and which to wrong places; holes do neither.

    Args:
        parts: The store.
        queue: The queue.
        queue_offset: Queue offset of the first entry.
        entries: Consecutive entries.
    """
    sizes = entries["size"].astype(np.int64)
    places = np.flatnonzero((sizes > 0) & (sizes != HOLE_SIZE))
    begins = entries["commit_log_offset"][places].astype(np.int64)
    selection = Selection(places + queue_offset, begins, sizes[places], queue_offset + len(entries))
    sound = np.zeros(len(entries), np.bool_)
    sound[places] = sound_records(
        parts.log, selection, parts.identity_of(queue), trusted_from=parts.trusted_from
    )
    astray = ~sound & (sizes != HOLE_SIZE)
    if parts.quarantine.ranges:
        for place in np.flatnonzero(astray).tolist():
            astray[place] = not is_lost(parts.quarantine, queue, queue_offset + place)
    return sound, astray


def leads_to_record(
    log: CommitLog, queue: ConsumeQueue, identity: QueueIdentity, queue_offset: int
) -> bool:
    """Whether an entry points to its record, damaged or not."""
    place, size, _ = queue.entry_at(queue_offset)
    return is_record_of(log, place, size, queue_offset, identity)


def is_foreign(
    log: CommitLog, queue: ConsumeQueue, identity: QueueIdentity, quarantine: Quarantine
) -> bool:
    """Whether the last entries of a queue point to wrong records: its files were exchanged.

    Then the end of the queue cannot be known from them.

    Args:
        log: The commit log.
        queue: The queue, just loaded from its files.
        identity: The fields that its records share.
        quarantine: The damaged ranges of the log.
    """
    looked_at = False
    end = queue.end_offset
    for queue_offset in range(end - 1, max(queue.min_offset, end - _LAST_ENTRIES) - 1, -1):
        place, size, _ = queue.entry_at(queue_offset)
        if size == HOLE_SIZE or 0 <= place < log.min_offset:
            continue  # A hole, or its record is deleted.
        if leads_to_record(log, queue, identity, queue_offset) or is_lost(
            quarantine, queue, queue_offset
        ):
            return False
        looked_at = True
    return looked_at


def astray_edges(parts: StoreParts, queue: ConsumeQueue) -> Iterator[int]:
    """Queue offsets at the edges of a queue's files whose entries are wrong.

    An exchanged file shows there, before a reader follows its entries or skips them for their tags.
    """
    file_entries = parts.config.consume_queue_file_entries
    low, high = queue.min_offset, queue.end_offset
    for start in range(low - low % file_entries, high, file_entries):
        yield from astray_between(parts, queue, max(low, start), min(high, max(low, start) + 1))
        last = min(high, start + file_entries) - 1
        yield from astray_between(parts, queue, last, last + 1)


def astray_between(parts: StoreParts, queue: ConsumeQueue, begin: int, end: int) -> Iterator[int]:
    """Which of a few entries are wrong, as far as the log is kept; in steps of one."""
    identity = parts.identity_of(queue)
    for queue_offset in range(begin, end):
        place, size, _ = queue.entry_at(queue_offset)
        if size == HOLE_SIZE or (size > 0 and 0 <= place < parts.log.min_offset):
            continue  # A hole, or its record is deleted.
        if not leads_to_record(parts.log, queue, identity, queue_offset) and not is_lost(
            parts.quarantine, queue, queue_offset
        ):
            yield queue_offset
