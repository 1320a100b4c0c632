"""Reading a message queue: runs of the mapped log, as they lie.

Entries of the consume queue say where the messages are; those that lie back to back become one view
of the log, so that a pull of a thousand messages is a handful of views. Nothing is copied here.

Every record is compared with its entry before it is handed out: its size, its position, its queue
offset. Records that this process has neither written nor checked yet are checked against their
checksum as well. What fails is passed over, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import record_checksum_ok
from ariane_record.layout import RECORD_BYTES_MIN, QueueOffset
from ariane_storage.commit_log import CommitLog
from ariane_storage.consume_queue_entry import HOLE_SIZE, Entries
from ariane_storage.fields import FIELD_STARTS, FieldColumn, Int64s
from ariane_storage.record_places import checksum_faults, locate

_unpack_identity = Struct(">i16xqq").unpack_from
"""Size, queue offset and commit-log offset of a record."""

_IDENTITY_BYTES: Final = 36
_IDENTITY: Final = np.dtype(
    {
        "names": ["size", "queue_offset", "commit_log_offset"],
        "formats": [">i4", ">i8", ">i8"],
        "offsets": [FIELD_STARTS[name] for name in ("size", "queue_offset", "commit_log_offset")],
        "itemsize": _IDENTITY_BYTES,
    }
)
"""The same of many records."""

_NO_SIZES: Final = np.empty(0, np.int32)


class QueueReadStatus(StrEnum):
    """What a read of a queue came to."""

    FOUND = "found"
    """There are messages."""
    EMPTY = "empty"
    """The queue ends here for now."""
    FILTERED = "filtered"
    """None of the messages looked at is wanted or sound; go on at ``next_queue_offset``."""


@dataclass(frozen=True, slots=True)
class QueueRead:
    """Messages of a queue.

    Attributes:
        status: What came of it.
        chunks: Runs of whole records. They are the log itself: copy them before the next step of
            the event loop, or keep them only as long as the segment.
        sizes: Bytes of each record, in order, int32[count].
        next_queue_offset: Where to go on.
        min_queue_offset: The oldest queue offset that is kept.
        max_queue_offset: Where the readable part ends (exclusive).
    """

    status: QueueReadStatus
    next_queue_offset: QueueOffset
    min_queue_offset: QueueOffset
    max_queue_offset: QueueOffset
    chunks: list[memoryview] = field(default_factory=list)
    sizes: NDArray[np.int32] = field(default_factory=_NO_SIZES.copy)

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.sizes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all messages."""
        return sum(map(len, self.chunks))


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries that a read takes.

    Attributes:
        queue_offsets: Of each.
        commit_log_offsets: Where its record starts.
        sizes: Bytes of its record.
        next_queue_offset: Behind the last entry looked at.
    """

    queue_offsets: Int64s
    commit_log_offsets: Int64s
    sizes: Int64s
    next_queue_offset: int

    def keep(self, mask: NDArray[np.bool_]) -> Selection:
        """Only some of the entries."""
        return Selection(
            self.queue_offsets[mask],
            self.commit_log_offsets[mask],
            self.sizes[mask],
            self.next_queue_offset,
        )

    def part(self, begin: int, end: int) -> Selection:
        """Some of the entries, side by side; nothing is copied."""
        return Selection(
            self.queue_offsets[begin:end],
            self.commit_log_offsets[begin:end],
            self.sizes[begin:end],
            self.next_queue_offset,
        )


def select(
    entries: Entries,
    queue_offset: int,
    *,
    max_count: int,
    max_bytes: int,
    tag_codes: Collection[int] | None,
) -> Selection:
    """Choose from consecutive entries.

    Args:
        entries: What lies in the queue from ``queue_offset`` on; at least one.
        queue_offset: Of the first entry.
        max_count: Messages at most.
        max_bytes: Bytes at most, but always one message.
        tag_codes: Hashes of the wanted tags, or None for all.
    """
    sizes = entries["size"].astype(np.int64)
    if tag_codes is None and int(sizes.min()) > 0 and int(sizes.max()) < HOLE_SIZE:
        return _select_first(entries, sizes[:max_count], queue_offset, max_bytes)
    wanted = (sizes > 0) & (sizes != HOLE_SIZE)
    if tag_codes is not None:
        wanted &= np.isin(entries["tags_code"].astype(np.int64), list(tag_codes))
    places = np.flatnonzero(wanted)
    taken = places[:max_count]
    total = np.cumsum(sizes[taken])
    fitting = max(1, int(np.searchsorted(total, max_bytes, side="right")))
    taken = taken[:fitting]
    # Everything before the first entry that is wanted and was left is done with.
    left = len(taken) < len(places)
    looked_at = int(places[len(taken)]) if left else len(entries)
    return Selection(
        queue_offsets=taken + queue_offset,
        commit_log_offsets=entries["commit_log_offset"][taken].astype(np.int64),
        sizes=sizes[taken],
        next_queue_offset=queue_offset + looked_at,
    )


def _select_first(entries: Entries, sizes: Int64s, queue_offset: int, max_bytes: int) -> Selection:
    """Choose from consecutive entries all of which are wanted: as many as fit, the first."""
    count = max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")))
    return Selection(
        queue_offsets=np.arange(queue_offset, queue_offset + count),
        commit_log_offsets=entries["commit_log_offset"][:count].astype(np.int64),
        sizes=sizes[:count],
        next_queue_offset=queue_offset + count,
    )


def gather(
    log: CommitLog,
    selection: Selection,
    *,
    trusted_from: int,
    on_fault: Callable[[int], None],
) -> tuple[list[memoryview], Int64s]:
    """Views of the selected records, those that lie back to back in one, and their sizes.

    Args:
        log: Where they lie.
        selection: Which.
        trusted_from: Records at or above this commit-log offset need no checksum.
        on_fault: Called with the queue offset of each record that is passed over.
    """
    chunks: list[memoryview] = []
    kept: list[Int64s] = []
    rest = selection
    while len(rest.sizes):
        first = int(rest.commit_log_offsets[0])
        segment = log.segment_at(first)
        if segment is None:
            on_fault(int(rest.queue_offsets[0]))
            rest = rest.part(1, len(rest.sizes))
            continue
        # Sizes on this side: a damaged offset near 2**63 must not wrap around.
        inside = (rest.commit_log_offsets >= segment.start) & (
            rest.commit_log_offsets <= segment.start + len(segment.view) - rest.sizes
        )
        count = len(inside) if bool(inside.all()) else max(1, int(np.argmin(inside)))
        part, rest = rest.part(0, count), rest.part(count, len(rest.sizes))
        sound = (
            _sound(segment.view, segment.start, part, trusted_from)
            if bool(inside[0])
            else np.zeros(count, np.bool_)
        )
        if not bool(sound.all()):
            for queue_offset in part.queue_offsets[~sound].tolist():
                on_fault(queue_offset)
            part = part.keep(sound)
        if len(part.sizes):
            chunks += _runs(segment.view, part.commit_log_offsets - segment.start, part.sizes)
            kept.append(part.sizes)
    sizes = np.concatenate(kept) if kept else np.empty(0, np.int64)
    return chunks, sizes


def whole_record(
    log: CommitLog, commit_log_offset: int, size: int, queue_offset: int, *, trusted_from: int
) -> memoryview | None:
    """One record, if it is beyond doubt the one that its entry means.

    For one record a step of numpy costs more than the work itself: this takes a tenth of the time
    of ``gather``. Whatever it is in doubt about is left to that.

    Args:
        log: Where it lies.
        commit_log_offset: Where it starts.
        size: Its bytes.
        queue_offset: Its place in the queue.
        trusted_from: A record at or above this commit-log offset needs no checksum.
    """
    if not RECORD_BYTES_MIN <= size < HOLE_SIZE:
        return None
    record = log.view_of(commit_log_offset, size)
    if record is None:
        return None
    found_size, found_queue_offset, found_commit_log_offset = _unpack_identity(record)
    if (found_size, found_queue_offset, found_commit_log_offset) != (
        size,
        queue_offset,
        commit_log_offset,
    ):
        return None
    if commit_log_offset < trusted_from and not record_checksum_ok(record, required=True):
        return None
    return record


def _sound(view: memoryview, begin: int, part: Selection, trusted_from: int) -> NDArray[np.bool_]:
    """Which records of one segment are those that their entries mean."""
    starts = part.commit_log_offsets - begin
    if int(part.sizes.min()) < RECORD_BYTES_MIN or bool((starts[1:] <= starts[:-1]).any()):
        # Entries that no append has made: one by one, and only what stands on its own.
        return _sound_one_by_one(view, begin, part, trusted_from)
    # One step over the log, which is not in the caches of the processor, for all three.
    found = FieldColumn(view, f"V{_IDENTITY_BYTES}", starts, 0).get().view(_IDENTITY)
    sound: NDArray[np.bool_] = (
        (found["commit_log_offset"] == part.commit_log_offsets)
        & (found["size"] == part.sizes)
        & (found["queue_offset"] == part.queue_offsets)
    )
    if int(part.commit_log_offsets[0]) < trusted_from and bool(sound.any()):
        places, structured = locate(view, starts[sound], part.sizes[sound])
        fine = structured.copy()
        fine[structured] = ~checksum_faults(places)
        sound[sound] = fine
    return sound


def _sound_one_by_one(
    view: memoryview, begin: int, part: Selection, trusted_from: int
) -> NDArray[np.bool_]:
    sound = np.zeros(len(part.sizes), np.bool_)
    for place in range(len(sound)):
        if part.sizes[place] >= RECORD_BYTES_MIN:
            only = part.part(place, place + 1)
            sound[place] = _sound(view, begin, only, trusted_from)[0]
    return sound


def _runs(view: memoryview, starts: Int64s, sizes: Int64s) -> list[memoryview]:
    """Records that lie back to back, as one view each."""
    ends = starts + sizes
    breaks = np.flatnonzero(starts[1:] != ends[:-1])
    firsts = starts[np.concatenate(([0], breaks + 1))]
    lasts = ends[np.concatenate((breaks, [len(ends) - 1]))]
    return list(map(view.__getitem__, map(slice, firsts.tolist(), lasts.tolist())))
