"""Reading a message queue: records are read in runs and returned in the form of the log.

Entries of the consume queue point to the records. Adjacent records are read by one call, so a pull
of a thousand messages takes a handful of calls into one buffer. Small gaps between records are read
along, which costs less than another call::

    the log     +---+---+---+.......+---+---+.+---+.......
                | a | b | c | ..... | d | e |.| f | ....      '.' is of other queues
                +---+---+---+.......+---+---+.+---+.......
    the buffer  +---+---+---+---+---+.+---+
                | a | b | c | d | e |.| f |                   two calls, two chunks
                +---+---+---+---+---+.+---+

Every record is compared with its entry and its queue before it is handed out: size, position, queue
offset, queue id, topic. Records that this process has neither written nor checked yet are also
checked against their checksum. Records known to be damaged are skipped; any other failure ends the
read.
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
from ariane_storage.reading.expiry import has_expired
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
"""Size, queue offset and commit-log offset of records: their identity except the topic."""

_NO_SIZES: Final = np.empty(0, np.int32)
_NO_OFFSETS: Final = np.empty(0, np.int64)
_READ_ALONG_MAX: Final = 2048
"""Copying so many bytes between two records takes less time than a call: of two queues whose
records of 1 KiB alternate, one is read in 0.63 us a record instead of 0.98. From 3 KiB on a call is
as fast."""
_HEAD_BYTES: Final = 512
"""More than a record has before its body, and the topic, too, behind a small body."""
_LARGE_BYTES: Final = 1 << 20
"""For an entry with so large a record, the record's first bytes are checked before it is read."""


class QueueReadStatus(StrEnum):
    """The result of a read of a queue."""

    FOUND = "found"
    """There are messages."""
    EMPTY = "empty"
    """The queue ends here for now."""
    FILTERED = "filtered"
    """None of the examined messages is wanted or sound; continue at ``next_queue_offset``."""


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True)
class QueueRead:
    """Messages of a queue."""

    status: QueueReadStatus
    """The result."""
    next_queue_offset: QueueOffset
    """Where to continue."""
    min_queue_offset: QueueOffset
    """The oldest queue offset that is kept."""
    max_queue_offset: QueueOffset
    """End of the readable part (exclusive)."""
    chunks: list[memoryview] = field(default_factory=list)
    """Runs of whole records, read for this answer."""
    sizes: NDArray[np.int32] = field(default_factory=_NO_SIZES.copy)
    """Bytes of each record, in order, int32[count]."""
    looked_at_bytes: int = 0
    """Size of all entries and records that were examined."""
    expired_count: int = 0
    """Messages that were passed over because they have expired."""
    lost_offsets: Int64s = field(default_factory=_NO_OFFSETS.copy)
    """Queue offsets below ``next_queue_offset`` whose messages are damaged, and were skipped;
    ascending. A filter may have left others out unseen."""

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
    """Records that a read has found."""

    chunks: list[memoryview]
    """Runs of whole records: the log itself."""
    queue_offsets: Int64s
    """Of each record."""
    sizes: Int64s
    """Bytes of each."""
    stopped_at: int | None
    """Queue offset of the entry that ended the read, or None. The entry is wrong unless a read that
    begins there finds otherwise."""
    expired_count: int = 0
    """Records that were left out because they have expired."""

    @classmethod
    def of(
        cls,
        chunks: list[memoryview],
        parts: list[Selection],
        stopped_at: int | None,
        expired_count: int,
    ) -> Gathered:
        """Join the gathered parts."""
        if len(parts) == 1:
            part = parts[0]
            return cls(chunks, part.queue_offsets, part.sizes, stopped_at, expired_count)
        none = np.empty(0, np.int64)
        queue_offsets = np.concatenate([none, *(part.queue_offsets for part in parts)])
        sizes = np.concatenate([none, *(part.sizes for part in parts)])
        return cls(chunks, queue_offsets, sizes, stopped_at, expired_count)


def gather(
    log: CommitLog,
    selection: Selection,
    identity: QueueIdentity,
    *,
    trusted_from: int,
    is_lost: Callable[[int], bool],
    now_ms: int = 0,
) -> Gathered:
    """Read the selected records; adjacent ones share a view.

    Args:
        log: The commit log.
        selection: The selected entries.
        identity: The fields that records of the queue share.
        trusted_from: Records at or above this commit-log offset need no checksum.
        is_lost: Whether the record of a queue offset is known to be damaged: then it is skipped.
            Otherwise its entry is wrong, and the read ends before it.
        now_ms: What has expired by then is left out, milliseconds since the epoch; 0: nothing is.
    """
    expired_count = 0
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
            expired = read.expired(now_ms) if now_ms else None
            if expired is not None:
                sound &= ~expired
                expired_count += int(expired.sum())
            chunks += read.chunks()
            kept.append(some if bool(sound.all()) else some.taken(sound))
        if found is not None:
            break
    return Gathered.of(chunks, kept, stopped_at, expired_count)


def _of_all(
    log: CommitLog, rest: Selection, identity: QueueIdentity, trusted_from: int
) -> Iterator[tuple[Selection, _Read | None]]:
    """Read records of ascending entries, segment by segment; None for entries in no segment."""
    while len(rest.sizes):
        segment = log.segment_at(int(rest.commit_log_offsets[0]))
        if segment is None:
            count = 1
        else:
            # Compared by sizes: a damaged offset near 2**63 must not overflow.
            end = segment.start + segment.length
            inside = rest.commit_log_offsets <= end - rest.sizes
            count = len(inside) if bool(inside.all()) else max(1, int(np.argmin(inside)))
        part, rest = rest.part(0, count), rest.part(count, len(rest.sizes))
        if segment is None or not bool(inside[0]):
            yield part, None
        else:
            yield from _reads(segment, part, identity, trusted_from)


def _ascending(selection: Selection) -> tuple[Selection, int | None]:
    """The first entries, as long as their records ascend; and the entry behind them."""
    falls = selection.commit_log_offsets[1:] <= selection.commit_log_offsets[:-1]
    if not bool(falls.any()):
        return selection, None
    # One of the two at the descent is wrong: the first is checked, the other begins a read.
    count = int(np.argmax(falls)) + 1
    return selection.part(0, count), int(selection.queue_offsets[count])


def _first_astray(
    part: Selection, sound: NDArray[np.bool_], is_lost: Callable[[int], bool]
) -> int | None:
    """Index of the first entry that is wrong, and whose record is not known as damaged."""
    for place in np.flatnonzero(~sound).tolist():
        if not is_lost(int(part.queue_offsets[place])):
            return int(place)
    return None


def is_record_of(
    log: CommitLog, commit_log_offset: int, size: int, queue_offset: int, identity: QueueIdentity
) -> bool:
    """Whether a record is the one of its entry, damaged or not; reads only its head and topic.

    Args:
        log: The commit log.
        commit_log_offset: The start of the record.
        size: Its size in bytes.
        queue_offset: Its queue offset.
        identity: The fields that records of the queue share.
    """
    if not RECORD_BYTES_MIN <= size < HOLE_SIZE:
        return False
    try:
        front = log.read(commit_log_offset, min(size, _HEAD_BYTES))
        if front is None:
            return False
        place = identity.topic_place(front, commit_log_offset, size, queue_offset)
        if place is None:
            return False
        begin, counted = place
        end = begin + len(counted)
        if end > len(front):
            return log.read(commit_log_offset + begin, len(counted)) == counted
        return front[begin:end] == counted
    except BytesUnreadable:
        return False


def whole_record(
    log: CommitLog,
    commit_log_offset: int,
    size: int,
    queue_offset: int,
    identity: QueueIdentity,
    *,
    trusted_from: int,
) -> memoryview | None:
    """Return one record if it is certainly the one of its entry.

    For one record this takes a tenth of the time of ``gather``, whose numpy steps cost more than
    the work itself. In any doubt it returns None and leaves the record to ``gather``.

    Args:
        log: The commit log.
        commit_log_offset: The start of the record.
        size: Its size in bytes.
        queue_offset: Its queue offset.
        identity: The fields that records of the queue share.
        trusted_from: A record at or above this commit-log offset needs no checksum.
    """
    if not RECORD_BYTES_MIN <= size < HOLE_SIZE:
        return None
    if size > _LARGE_BYTES and not is_record_of(
        log, commit_log_offset, size, queue_offset, identity
    ):
        return None
    try:
        record = log.read(commit_log_offset, size)
    except BytesUnreadable:
        return None
    if record is None or not identity.holds_one(record, commit_log_offset, size, queue_offset):
        return None
    if commit_log_offset < trusted_from and not record_checksum_ok(record, required=True):
        return None
    return memoryview(record)


@dataclass(frozen=True, slots=True)
class _Read:
    """Records in a buffer."""

    buffer: memoryview
    """The buffer."""
    starts: Int64s
    """Position of each record, ascending."""
    sizes: Int64s
    """Bytes of each."""
    sound: NDArray[np.bool_]
    """Whether records belong to their entries."""

    def expired(self, now_ms: int) -> NDArray[np.bool_] | None:
        """Which have expired; None if none expires at all."""
        return has_expired(self.buffer, self.starts, self.sizes, self.sound, now_ms)

    def chunks(self) -> list[memoryview]:
        """The sound records; adjacent ones share a view."""
        starts, sizes = self.starts, self.sizes
        if not bool(self.sound.all()):
            starts, sizes = starts[self.sound], sizes[self.sound]
            if not len(starts):
                return []
        return runs_of(self.buffer, starts, sizes)


def runs_of(buffer: memoryview, starts: Int64s, sizes: Int64s) -> list[memoryview]:
    """Views of records in a buffer; adjacent records share a view.

    Args:
        buffer: The buffer.
        starts: Position of each, ascending; at least one.
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
    """Read records of one segment at once; on failure by halves; None for a single unreadable one.

    Failures are unreadable records, and entries that no append has made.
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
    """Read records of one segment; None if they must be checked one by one."""
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
    buffer = memoryview(content).toreadonly()
    # How far each run has moved from its place in the segment to that in the buffer.
    moved = firsts - (np.cumsum(lengths) - lengths)
    counts = np.diff(np.concatenate(([0], breaks + 1, [len(starts)])))
    starts = starts - np.repeat(moved, counts)
    return _Read(buffer, starts, sizes, _sound(buffer, starts, part, identity, trusted_from))


def _fronts_agree(segment: Segment, part: Selection) -> bool:
    """Whether the large records in a part belong to their entries."""
    are_large = part.sizes > _LARGE_BYTES
    starts = (part.commit_log_offsets[are_large] - segment.start).tolist()
    content = segment.gather(starts, [_IDENTITY_BYTES] * len(starts))
    if content is None:
        return False
    return bool(_are_meant(np.frombuffer(content, _IDENTITY), part.taken(are_large)).all())


def _are_meant(found: NDArray[np.void], part: Selection) -> NDArray[np.bool_]:
    """Whether records belong to their entries, by their first bytes."""
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
    """Whether records in a buffer belong to their entries."""
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
    """Which entries point to their own records, in any order.

    Args:
        log: The commit log.
        selection: The entries.
        identity: The fields that records of the queue share.
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
    """The entries whose records begin as they should; all entries if the log is unreadable.

    Wrong entries may point anywhere, so only the first bytes of each record are read.
    """
    starts = (selection.commit_log_offsets[members] - segment.start).tolist()
    fronts = segment.gather(starts, [_IDENTITY_BYTES] * len(starts)) if starts else b""
    if fronts is None:
        return members
    meant = _are_meant(np.frombuffer(fronts, _IDENTITY), selection.taken(members))
    return members[meant]
