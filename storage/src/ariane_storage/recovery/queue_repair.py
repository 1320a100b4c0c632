"""Repair of consume queues beside reads: wrong entries are rebuilt from the commit log.

Entries have no checksum. A read that follows an entry to something other than the record of its
queue and queue offset requests a repair, and reads nothing behind it until the repair is done::

    queue    | sound ............ | from here on, entries are wrong    | sound ............ |
                    |                                                          |
                    v                                                          v
    log      | ... record |<---- scanned once, for all queues that need it --->| record ... |

Sound neighbours bound the part of the log in which the right records are. A record found there
becomes the entry; a missing record becomes a hole; damage is quarantined. Meanwhile reads continue
in other queues and before the repaired part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.counted import counted
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.scan import Ending, Stretch, scan
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import ConsumeQueue
from ariane_storage.queues.consume_queue_entry import ENTRY, HOLE_SIZE, Entries, holes
from ariane_storage.queues.record_rows import Rows
from ariane_storage.reading.entry_check import is_lost, soundness
from ariane_storage.recovery.recovery import Progress, ProgressCallback

_WINDOW_ENTRIES: Final = 1024
"""The number of consecutive right entries that ends a repair."""


@dataclass(frozen=True, slots=True)
class QueueRepair:
    """The repair of wrong entries of one queue."""

    topic: str
    """Topic of the queue."""
    queue_id: int
    """Its number within the topic."""
    begin: int
    """Queue offset of the first one."""
    end: int
    """Queue offset behind the last one."""
    restored: int
    """Entries that point to their records again."""
    lost: int
    """Entries that are holes now, or point to damaged records."""


@dataclass(slots=True, eq=False)
class _Job:
    """Wrong entries of one queue, and the right ones found so far."""

    queue: ConsumeQueue
    """The queue."""
    begin: int
    """Queue offset of the first entry."""
    astray: NDArray[np.bool_]
    """Which of the entries from there on are wrong."""
    log_begin: int
    """Their records are at or above this commit-log offset."""
    log_end: int
    """And below this one."""
    found: Entries = field(init=False)
    """The right entries from the log; zeros for entries not found yet."""

    def __post_init__(self) -> None:
        self.found = np.zeros(len(self.astray), ENTRY)

    @property
    def end(self) -> int:
        """Queue offset behind the last of its entries."""
        return self.begin + len(self.astray)


def find_entries(
    parts: StoreParts, asked: Iterable[tuple[ConsumeQueue, int]], progress: ProgressCallback | None
) -> list[_Job]:
    """Find the right entries in the log for wrong ones; changes no queue. Any thread.

    Args:
        parts: The store.
        asked: For each queue the queue offset of a wrong entry.
        progress: Called now and then with the progress.

    Returns:
        The repair that was made; None when the store is about to be closed.
    """
    jobs = [job for queue, place in asked if (job := _job_of(parts, queue, place)) is not None]
    jobs.sort(key=lambda job: job.log_begin)
    total = sum(end - begin for begin, end, _ in _ranges(jobs))
    done = 0
    for begin, end, members in _ranges(jobs):
        wanted = {(job.queue.topic.encode(), job.queue.queue_id): job for job in members}
        for event in _events(parts, begin, end):
            if parts.repairs.stopped:
                return []
            if isinstance(event, Damage):
                parts.quarantine.add(event)
                continue
            _take(parts, wanted, event)
            if progress is not None:
                step = f"repairing {counted(len(jobs), 'consume queue')}"
                progress(Progress(step, done + min(event.end, end) - begin, total))
        done += end - begin
    return jobs


def _job_of(parts: StoreParts, queue: ConsumeQueue, queue_offset: int) -> _Job | None:
    """The repair needed around a queue offset; None if no entry there is wrong."""
    low, high = queue.min_offset, queue.end_offset
    first = max(low, min(queue_offset, high))
    log_begin, log_end = parts.log.min_offset, parts.log.write_offset
    before: list[NDArray[np.bool_]] = []
    begin = first
    while begin > low and not parts.repairs.stopped:
        entries, sound, astray = _window(parts, queue, max(low, begin - _WINDOW_ENTRIES), begin)
        if not bool(astray.any()) and bool(sound.any()):
            last = int(np.flatnonzero(sound)[-1])
            log_begin = max(log_begin, _begins(entries)[last] + int(entries["size"][last]))
            break
        before.insert(0, astray)
        begin -= len(astray)
    behind: list[NDArray[np.bool_]] = []
    end = first
    while end < high and not parts.repairs.stopped:
        entries, sound, astray = _window(parts, queue, end, min(high, end + _WINDOW_ENTRIES))
        if not bool(astray.any()) and bool(sound.any()):
            log_end = min(log_end, _begins(entries)[int(np.argmax(sound))])
            break
        behind.append(astray)
        end += len(astray)
    mask = np.concatenate([np.zeros(0, np.bool_), *before, *behind])
    if not bool(mask.any()):
        return None
    first_astray, last_astray = np.flatnonzero(mask)[[0, -1]].tolist()
    mask = mask[first_astray : last_astray + 1]
    return _Job(queue, begin + first_astray, mask, log_begin, max(log_begin, log_end))


def _window(
    parts: StoreParts, queue: ConsumeQueue, begin: int, end: int
) -> tuple[Entries, NDArray[np.bool_], NDArray[np.bool_]]:
    entries = queue.entries(begin, end - begin)
    return entries, *soundness(parts, queue, begin, entries)


def _begins(entries: Entries) -> list[int]:
    begins: list[int] = entries["commit_log_offset"].tolist()
    return begins


def _ranges(jobs: Sequence[_Job]) -> list[tuple[int, int, list[_Job]]]:
    """Parts of the log to scan, each once, with the repairs that need them."""
    ranges: list[tuple[int, int, list[_Job]]] = []
    for job in jobs:
        if ranges and job.log_begin < ranges[-1][1]:
            begin, end, members = ranges.pop()
            ranges.append((begin, max(end, job.log_end), [*members, job]))
        else:
            ranges.append((job.log_begin, job.log_end, [job]))
    return ranges


def _events(parts: StoreParts, begin: int, end: int) -> Iterable[Stretch | Damage]:
    """Records and damage of a part of the log that no longer grows."""
    for event in scan(parts.log.walk(begin), begin):
        at = event.commit_log_offset if isinstance(event, Ending) else event.begin
        if at >= end:
            return
        if isinstance(event, Ending):
            # Damage without a valid record behind it: no torn tail here, since it was written.
            yield Damage(at, end, event.reason or DamageReason.NOTHING)
            return
        yield Damage(at, min(event.end, end), event.reason) if isinstance(event, Damage) else event


def _take(parts: StoreParts, wanted: dict[tuple[bytes, int], _Job], stretch: Stretch) -> None:
    """Take the entries of records that repairs need."""
    low = min(job.begin for job in wanted.values())
    high = max(job.end for job in wanted.values())
    places = stretch.places
    queue_offsets = places.front("queue_offset")
    near = np.flatnonzero((queue_offsets >= low) & (queue_offsets < high))
    near = near[np.isin(places.front("queue_id")[near], [queue_id for _, queue_id in wanted])]
    if not len(near):
        return
    rows = Rows.of(replace(stretch, places=places.chosen(near)))
    for (topic, queue_id), chosen in rows.groups().items():
        job = wanted.get((topic.encode(), queue_id))
        if job is None:
            continue
        offsets = rows.queue_offsets[chosen]
        begin = parts.deleted_topics.end_of(job.queue.topic)
        fits = (offsets >= job.begin) & (offsets < job.end) & rows.has_entry[chosen]
        fits &= rows.commit_log_offsets[chosen] >= begin
        if bool(fits.any()):
            entries = rows.entries(chosen[fits], parts.config.delay_levels_ms)
            job.found[offsets[fits] - job.begin] = entries


def put_entries(parts: StoreParts, jobs: Iterable[_Job]) -> list[QueueRepair]:
    """Write the entries found. No other thread may write out, remove or count queues meanwhile.

    Raises:
        OSError: The disk failed.
    """
    return [repair for job in jobs if (repair := _put(parts, job)) is not None]


def _put(parts: StoreParts, job: _Job) -> QueueRepair | None:
    queue = job.queue
    if parts.queues.find(queue.topic, queue.queue_id) is not queue:
        return None  # Its topic was deleted meanwhile.
    skipped = min(max(0, queue.min_offset - job.begin), len(job.astray))
    astray, found, begin = job.astray[skipped:], job.found[skipped:], job.begin + skipped
    entries = queue.entries(begin, len(astray)).copy()
    restored = astray & (found["size"] > 0)
    entries[restored] = found[restored]
    missing = astray & ~restored
    damaged = missing & _lead_into_damage(parts, entries)
    gone = np.flatnonzero(missing & ~damaged)
    entries[gone] = holes(len(gone))
    queue.put(begin, entries)
    # Entries that point into damage show the lost messages, if they ascend.
    for place in np.flatnonzero(damaged).tolist():
        if not is_lost(parts.quarantine, queue, begin + place):
            queue.put(begin + place, holes(1))
    return QueueRepair(
        queue.topic,
        queue.queue_id,
        begin,
        begin + len(astray),
        restored=int(restored.sum()),
        lost=int(missing.sum()),
    )


def _lead_into_damage(parts: StoreParts, entries: Entries) -> NDArray[np.bool_]:
    covered = np.zeros(len(entries), np.bool_)
    places = entries["commit_log_offset"]
    for damage in parts.quarantine.ranges:
        covered |= (places >= damage.begin) & (places < damage.end)
    covered &= (entries["size"] > 0) & (entries["size"] != HOLE_SIZE)
    return covered
