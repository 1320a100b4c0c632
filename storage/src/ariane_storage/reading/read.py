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

Every record is compared with its entry and its queue before it is handed out: its size, its
position, its queue offset, its queue id, its topic. Records that this process has neither written
nor checked yet are checked against their checksum as well. What is known to be damaged is passed
over; any other that fails ends what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import record_checksum_ok
from ariane_record.layout import RECORD_BYTES_MIN, QueueOffset
from ariane_storage.errors import BytesUnreadable
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.records.fields import FIELD_STARTS, Int64s
from ariane_storage.log.records.queue_identity import QueueIdentity
from ariane_storage.log.records.record_places import checksum_faults, locate
from ariane_storage.log.segment import Segment
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE
from ariane_storage.reading.selection import Selection

_IDENTITY_BYTES: Final = 36
_IDENTITY: Final = np.dtype(
    {
        "names": ["size", "queue_offset", "commit_log_offset"],
        "formats": [">i4", ">i8", ">i8"],
        "offsets": [FIELD_STARTS[name] for name in ("size", "queue_offset", "commit_log_offset")],
        "itemsize": _IDENTITY_BYTES,
    }
)
"""Size, queue offset and commit-log offset of records: what tells without their topic."""

_NO_SIZES: Final = np.empty(0, np.int32)
_NONE_SOUND: Final = np.zeros(1, np.bool_)
_READ_ALONG_MAX: Final = 2048
"""As many bytes between two records are copied in less time than a call takes: of two queues whose
records of 1 KiB alternate, one is read in 0.63 us a record in place of 0.98. From 3 KiB on a call
is as fast."""
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
        looked_at_bytes: Bytes of all entries and records that were looked at.
    """

    status: QueueReadStatus
    next_queue_offset: QueueOffset
    min_queue_offset: QueueOffset
    max_queue_offset: QueueOffset
    chunks: list[memoryview] = field(default_factory=list)
    sizes: NDArray[np.int32] = field(default_factory=_NO_SIZES.copy)
    looked_at_bytes: int = 0

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.sizes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all messages."""
        return sum(map(len, self.chunks))


@dataclass(frozen=True, slots=True)
class Gathered:
    """Records that were found.

    Attributes:
        chunks: Runs of whole records: the log itself.
        queue_offsets: Of each record.
        sizes: Bytes of each.
        stopped_at: Queue offset of the entry that ended it, or None: nothing at or behind it is in
            here. It leads astray unless a read that begins there says something else.
    """

    chunks: list[memoryview]
    queue_offsets: Int64s
    sizes: Int64s
    stopped_at: int | None

    @classmethod
    def of(
        cls, chunks: list[memoryview], parts: list[Selection], stopped_at: int | None
    ) -> Gathered:
        """What was gathered part by part."""
        if len(parts) == 1:
            return cls(chunks, parts[0].queue_offsets, parts[0].sizes, stopped_at)
        none = np.empty(0, np.int64)
        queue_offsets = np.concatenate([none, *(part.queue_offsets for part in parts)])
        sizes = np.concatenate([none, *(part.sizes for part in parts)])
        return cls(chunks, queue_offsets, sizes, stopped_at)


def gather(
    log: CommitLog,
    selection: Selection,
    identity: QueueIdentity,
    *,
    trusted_from: int,
    is_lost: Callable[[int], bool],
) -> Gathered:
    """The selected records, those that lie back to back in one view, and their sizes.

    Args:
        log: Where they lie.
        selection: Which.
        identity: What records of their queue say.
        trusted_from: Records at or above this commit-log offset need no checksum.
        is_lost: Whether the record of a queue offset is known to be damaged: it is passed over.
            Else its entry leads astray, and nothing behind it is gathered.
    """
    chunks: list[memoryview] = []
    kept: list[Selection] = []
    rest, stopped_at = _ascending(selection)
    for some, read in _of_all(log, rest, identity, trusted_from):
        sound = np.zeros(len(some.sizes), np.bool_) if read is None else read.sound
        found = None if bool(sound.all()) else _first_astray(some, sound, is_lost)
        if found is not None:
            sound[found:] = False
            stopped_at = int(some.queue_offsets[found])
        if read is not None:
            chunks += read.chunks()
            kept.append(some if bool(sound.all()) else some.taken(sound))
        if found is not None:
            break
    return Gathered.of(chunks, kept, stopped_at)


def _of_all(
    log: CommitLog, rest: Selection, identity: QueueIdentity, trusted_from: int
) -> Iterator[tuple[Selection, _Read | None]]:
    """Read records of ascending entries, segment by segment; None of what lies in none."""
    while len(rest.sizes):
        segment = log.segment_at(int(rest.commit_log_offsets[0]))
        if segment is None:
            count = 1
        else:
            # Sizes on this side: a damaged offset near 2**63 must not wrap around.
            end = segment.start + segment.length
            inside = rest.commit_log_offsets <= end - rest.sizes
            count = len(inside) if bool(inside.all()) else max(1, int(np.argmin(inside)))
        part, rest = rest.part(0, count), rest.part(count, len(rest.sizes))
        if segment is None or not bool(inside[0]):
            yield part, None
        else:
            yield from _reads(segment, part, identity, trusted_from)


def _ascending(selection: Selection) -> tuple[Selection, int | None]:
    """The first entries, as long as each leads behind the one before it; and the next of them."""
    falls = selection.commit_log_offsets[1:] <= selection.commit_log_offsets[:-1]
    if not bool(falls.any()):
        return selection, None
    # One of the two beside the fall leads astray: the first is looked at, the other begins a read.
    count = int(np.argmax(falls)) + 1
    return selection.part(0, count), int(selection.queue_offsets[count])


def _first_astray(
    part: Selection, sound: NDArray[np.bool_], is_lost: Callable[[int], bool]
) -> int | None:
    """The place of the first entry that is not sound, and whose record is not known as damaged."""
    for place in np.flatnonzero(~sound).tolist():
        if not is_lost(int(part.queue_offsets[place])):
            return int(place)
    return None


def whole_record(
    log: CommitLog,
    commit_log_offset: int,
    size: int,
    queue_offset: int,
    identity: QueueIdentity,
    *,
    trusted_from: int,
) -> memoryview | None:
    """One record, if it is beyond doubt the one that its entry means.

    For one record a step of numpy costs more than the work itself: this takes a tenth of the time
    of ``gather``. Whatever it is in doubt about is left to that.

    Args:
        log: Where it lies.
        commit_log_offset: Where it starts.
        size: Its bytes.
        queue_offset: Its place in the queue.
        identity: What records of its queue say.
        trusted_from: A record at or above this commit-log offset needs no checksum.
    """
    if not RECORD_BYTES_MIN <= size < HOLE_SIZE:
        return None
    try:
        record = None if size > _LARGE_BYTES else log.read(commit_log_offset, size)
    except BytesUnreadable:
        return None
    if record is None or not identity.holds_one(record, commit_log_offset, size, queue_offset):
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
        return runs_of(self.buffer, starts, sizes)


def runs_of(buffer: memoryview, starts: Int64s, sizes: Int64s) -> list[memoryview]:
    """Some records of a buffer, those that lie back to back as one view.

    Args:
        buffer: Where they lie.
        starts: Where each starts, ascending; at least one.
        sizes: Bytes of each.
    """
    ends = starts + sizes
    breaks = np.flatnonzero(starts[1:] != ends[:-1])
    if not len(breaks) and len(buffer) == int(sizes.sum()):
        return [buffer]
    firsts = starts[np.concatenate(([0], breaks + 1))]
    lasts = ends[np.concatenate((breaks, [len(ends) - 1]))]
    return list(map(buffer.__getitem__, map(slice, firsts.tolist(), lasts.tolist())))


def _reads(
    segment: Segment, part: Selection, identity: QueueIdentity, trusted_from: int
) -> Iterator[tuple[Selection, _Read | None]]:
    """Read records of one segment: all at once, or by halves what cannot be; None of a lone one.

    Reasons are a record that the disk cannot read, and entries that no append has made.
    """
    read = _read(segment, part, identity, trusted_from)
    count = len(part.sizes)
    if read is not None or count == 1:
        yield part, read
        return
    yield from _reads(segment, part.part(0, count // 2), identity, trusted_from)
    yield from _reads(segment, part.part(count // 2, count), identity, trusted_from)


def _read(
    segment: Segment, part: Selection, identity: QueueIdentity, trusted_from: int
) -> _Read | None:
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
    return _Read(buffer, starts, sizes, _sound(buffer, starts, part, identity, trusted_from))


def _fronts_agree(segment: Segment, part: Selection) -> bool:
    """Whether the large records among some are those that their entries mean."""
    are_large = part.sizes > _LARGE_BYTES
    starts = (part.commit_log_offsets[are_large] - segment.start).tolist()
    content = segment.gather(starts, [_IDENTITY_BYTES] * len(starts))
    if content is None:
        return False
    return bool(_are_meant(np.frombuffer(content, _IDENTITY), part.taken(are_large)).all())


def _are_meant(found: NDArray[np.void], part: Selection) -> NDArray[np.bool_]:
    """Which records are those that their entries mean, by what their fronts say."""
    meant: NDArray[np.bool_] = (
        (found["commit_log_offset"] == part.commit_log_offsets)
        & (found["size"] == part.sizes)
        & (found["queue_offset"] == part.queue_offsets)
    )
    return meant


def _sound(
    buffer: memoryview,
    starts: Int64s,
    part: Selection,
    identity: QueueIdentity,
    trusted_from: int,
) -> NDArray[np.bool_]:
    """Which records in a buffer are those that their entries mean."""
    sound = identity.holds(buffer, starts, part.sizes, part.commit_log_offsets, part.queue_offsets)
    if int(part.commit_log_offsets[0]) < trusted_from and bool(sound.any()):
        places, structured = locate(buffer, starts[sound], part.sizes[sound])
        fine = structured.copy()
        fine[structured] = ~checksum_faults(places)
        sound[sound] = fine
    return sound


def sound_records(
    log: CommitLog, selection: Selection, identity: QueueIdentity, *, trusted_from: int
) -> NDArray[np.bool_]:
    """Which entries lead to the records that they mean, wherever and in whatever order they lie.

    Args:
        log: Where the records lie.
        selection: Which.
        identity: What records of their queue say.
        trusted_from: Records at or above this commit-log offset need no checksum.
    """
    sound = np.zeros(len(selection.sizes), np.bool_)
    starts = np.array([segment.start for segment in log.segments], np.int64)
    order = np.argsort(selection.commit_log_offsets, kind="stable")
    owners = np.searchsorted(starts, selection.commit_log_offsets[order], side="right") - 1
    for number in np.unique(owners[owners >= 0]).tolist():
        segment = log.segment_at(int(starts[number]))
        if segment is None:
            continue  # Deleted meanwhile.
        members = order[owners == number]
        room = segment.start + segment.length - selection.commit_log_offsets[members]
        sizes = selection.sizes[members]
        members = members[(sizes >= RECORD_BYTES_MIN) & (sizes <= room)]
        members = _with_right_fronts(segment, selection, members)
        done = 0
        part = selection.taken(members)
        for some, read in _reads(segment, part, identity, trusted_from) if len(members) else ():
            if read is not None:
                sound[members[done : done + len(some.sizes)]] = read.sound
            done += len(some.sizes)
    return sound


def _with_right_fronts(segment: Segment, selection: Selection, members: Int64s) -> Int64s:
    """The entries whose records begin as they should; all entries if the log cannot be read.

    Entries of another log may lead anywhere, so only the first bytes of each record are read.
    """
    starts = (selection.commit_log_offsets[members] - segment.start).tolist()
    fronts = segment.gather(starts, [_IDENTITY_BYTES] * len(starts)) if starts else b""
    if fronts is None:
        return members
    meant = _are_meant(np.frombuffer(fronts, _IDENTITY), selection.taken(members))
    return members[meant]
