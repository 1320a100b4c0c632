"""Reading a message queue: runs of the log, as they lie.

Entries of the consume queue say where the messages are; those that lie back to back are read by one
call, so that a pull of a thousand messages is a handful of calls into one buffer. Little that lies
between two of them is read along, which costs less than a call for each::

    the log     +---+---+---+.......+---+---+.+---+.......
                | a | b | c | ..... | d | e |.| f | ....      '.' is of other queues
                +---+---+---+.......+---+---+.+---+.......
    the buffer  +---+---+---+---+---+.+---+
                | a | b | c | d | e |.| f |                   two calls, two chunks
                +---+---+---+---+---+.+---+

Every record is compared with its entry before it is handed out: its size, its position, its queue
offset. Records that this process has neither written nor checked yet are checked against their
checksum as well. What fails, or cannot be read, is passed over, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
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
from ariane_storage.errors import BytesUnreadable
from ariane_storage.fields import FIELD_STARTS, FieldColumn, Int64s
from ariane_storage.record_places import checksum_faults, locate
from ariane_storage.segment import Segment

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
_NONE_SOUND: Final = np.zeros(1, np.bool_)
_READ_ALONG_MAX: Final = 1024
"""As many bytes between two records are copied in less time than a call takes."""
_LARGE_BYTES: Final = 1 << 20
"""An entry that names so large a record is compared with the front of it before it is read."""


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
        chunks: Runs of whole records, read for this answer.
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
    """The selected records, those that lie back to back in one view, and their sizes.

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
            rest.commit_log_offsets <= segment.start + segment.length - rest.sizes
        )
        count = len(inside) if bool(inside.all()) else max(1, int(np.argmin(inside)))
        part, rest = rest.part(0, count), rest.part(count, len(rest.sizes))
        if not bool(inside[0]):
            on_fault(int(part.queue_offsets[0]))
            continue
        for some, read in _reads(segment, part, trusted_from):
            sound = _NONE_SOUND if read is None else read.sound
            if not bool(sound.all()):
                for queue_offset in some.queue_offsets[~sound].tolist():
                    on_fault(queue_offset)
            if read is not None:
                chunks += read.chunks()
                kept.append(read.sizes[sound])
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
    try:
        record = None if size > _LARGE_BYTES else log.read(commit_log_offset, size)
    except BytesUnreadable:
        return None
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
    return memoryview(record)


@dataclass(frozen=True, slots=True)
class _Read:
    """Records that were read.

    Attributes:
        buffer: Where they lie.
        starts: Where each starts there, ascending.
        sizes: Bytes of each.
        sound: Which are those that their entries mean.
    """

    buffer: memoryview
    starts: Int64s
    sizes: Int64s
    sound: NDArray[np.bool_]

    def chunks(self) -> list[memoryview]:
        """The sound ones, those that lie back to back as one view."""
        starts, sizes = self.starts, self.sizes
        if not bool(self.sound.all()):
            starts, sizes = starts[self.sound], sizes[self.sound]
            if not len(starts):
                return []
        ends = starts + sizes
        breaks = np.flatnonzero(starts[1:] != ends[:-1])
        if not len(breaks) and len(self.buffer) == int(sizes.sum()):
            return [self.buffer]
        firsts = starts[np.concatenate(([0], breaks + 1))]
        lasts = ends[np.concatenate((breaks, [len(ends) - 1]))]
        return list(map(self.buffer.__getitem__, map(slice, firsts.tolist(), lasts.tolist())))


def _reads(
    segment: Segment, part: Selection, trusted_from: int
) -> Iterator[tuple[Selection, _Read | None]]:
    """Read records of one segment: all at once, or by halves what cannot be; None of a lone one.

    Reasons are a record that the disk cannot read, and entries that no append has made.
    """
    read = _read(segment, part, trusted_from)
    count = len(part.sizes)
    if read is not None or count == 1:
        yield part, read
        return
    yield from _reads(segment, part.part(0, count // 2), trusted_from)
    yield from _reads(segment, part.part(count // 2, count), trusted_from)


def _read(segment: Segment, part: Selection, trusted_from: int) -> _Read | None:
    """Read records of one segment; None if they have to be looked at one by one."""
    starts, sizes = part.commit_log_offsets - segment.start, part.sizes
    if int(sizes.min()) < RECORD_BYTES_MIN or bool((starts[1:] < starts[:-1] + sizes[:-1]).any()):
        return None
    if int(sizes.max()) > _LARGE_BYTES and not _fronts_agree(segment, part):
        return None
    ends = starts + sizes
    breaks = np.flatnonzero(starts[1:] > ends[:-1] + _READ_ALONG_MAX)
    firsts = starts[np.concatenate(([0], breaks + 1))]
    lengths = ends[np.concatenate((breaks, [len(ends) - 1]))] - firsts
    content = segment.gather(firsts.tolist(), lengths.tolist())
    if content is None:
        return None
    buffer = memoryview(content)
    # How far each run has moved, from its place in the segment to that in the buffer.
    moved = firsts - (np.cumsum(lengths) - lengths)
    counts = np.diff(np.concatenate(([0], breaks + 1, [len(starts)])))
    starts = starts - np.repeat(moved, counts)
    return _Read(buffer, starts, sizes, _sound(buffer, starts, part, trusted_from))


def _fronts_agree(segment: Segment, part: Selection) -> bool:
    """Whether the large records among some are those that their entries mean."""
    are_large = part.sizes > _LARGE_BYTES
    starts = (part.commit_log_offsets[are_large] - segment.start).tolist()
    content = segment.gather(starts, [_IDENTITY_BYTES] * len(starts))
    if content is None:
        return False
    return bool(_are_meant(np.frombuffer(content, _IDENTITY), part.keep(are_large)).all())


def _are_meant(found: NDArray[np.void], part: Selection) -> NDArray[np.bool_]:
    """Which records are those that their entries mean, by what their fronts say."""
    meant: NDArray[np.bool_] = (
        (found["commit_log_offset"] == part.commit_log_offsets)
        & (found["size"] == part.sizes)
        & (found["queue_offset"] == part.queue_offsets)
    )
    return meant


def _sound(
    buffer: memoryview, starts: Int64s, part: Selection, trusted_from: int
) -> NDArray[np.bool_]:
    """Which records in a buffer are those that their entries mean."""
    # One step over the buffer for all three.
    found = FieldColumn(buffer, f"V{_IDENTITY_BYTES}", starts, 0).get().view(_IDENTITY)
    sound = _are_meant(found, part)
    if int(part.commit_log_offsets[0]) < trusted_from and bool(sound.any()):
        places, structured = locate(buffer, starts[sound], part.sizes[sound])
        fine = structured.copy()
        fine[structured] = ~checksum_faults(places)
        sound[sound] = fine
    return sound
