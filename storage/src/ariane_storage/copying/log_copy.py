"""The log of an open store as one of several copies, for replication.

A primary sends the bytes of its log; a replica appends them at the same positions, and derives its
own consume queues and index from them. When the primary changes, a replica cuts what the new
primary does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ariane_record.checksums.checksum import crc32
from ariane_storage.copying.raw_appender import RawAppended, RawAppender
from ariane_storage.copying.truncation import Truncation, truncate
from ariane_storage.disk.disk import is_exhausted
from ariane_storage.errors import CommitLogOffsetOutOfRange, LogPositionMismatch, StoreFull
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.log.damage import Damage
from ariane_storage.log.epoch_history import EpochHistory, EpochStart
from ariane_storage.log.scan import Ending, scan
from ariane_storage.log.segment import segment_name
from ariane_storage.parts import StoreParts
from ariane_storage.state_file import StateFile

READ_BYTES_MAX: Final = 1 << 20
"""Bytes of one read, by default."""

JUNCTION_BYTES_MAX: Final = 1 << 16


class LogRange(NamedTuple):
    """A range of the log."""

    begin: int
    """Commit-log offset of its first byte."""
    end: int
    """Commit-log offset behind its last byte."""


class Junction(NamedTuple):
    """The last bytes that two copies have in common, as one of them has them."""

    size_bytes: int
    """Their number; 0 where the copy keeps none."""
    crc: int
    """Their CRC-32."""


class LogCopy:
    """One copy of a log. All but ``truncate`` are for the appending thread."""

    def __init__(self, parts: StoreParts, keeper: Keeper) -> None:
        self._parts = parts
        self._keeper = keeper
        self._appender = RawAppender(parts)
        self._history = EpochHistory(parts.disk, parts.files.epochs)
        self._history.load(parts.log.write_offset)
        self._set_file = StateFile(parts.files.replica_set, parts.disk)
        self._set_id: str = (self._set_file.load() or {}).get("set_id", "")

    # The set.

    @property
    def set_id(self) -> str:
        """The id of the set that this log belongs to; empty before it belongs to one."""
        return self._set_id

    def missing(self, begin: int) -> tuple[LogRange, ...]:
        """Ranges that are missing or known to be damaged in a log that should begin at an offset.

        In order; the first one begins there if files are missing at the begin.
        """
        parts = self._parts
        lost = (LogRange(begin, parts.log.min_offset),) if begin < parts.log.min_offset else ()
        return lost + tuple(LogRange(one.begin, one.end) for one in parts.quarantine.ranges)

    @property
    def last_segment_begin(self) -> int:
        """Commit-log offset of the first byte of the segment that is being written."""
        log = self._parts.log
        return max(0, log.write_offset - 1) // log.segment_bytes * log.segment_bytes

    def is_sound(self, wanted: LogRange) -> bool:
        """Whether a range of the log is there, and all its records are valid. Blocks; any thread.

        Damage that is found is noted. Another copy, whose records may begin elsewhere, names the
        range: so the log is read from where it is known that a record begins, a segment's begin.
        """
        parts = self._parts
        log, quarantine = parts.log, parts.quarantine
        if not log.min_offset <= wanted.begin < wanted.end <= log.write_offset:
            return False
        self._check_until(wanted.begin - wanted.begin % log.segment_bytes, wanted.end)
        return not any(
            one.begin < wanted.end and one.end > wanted.begin for one in quarantine.ranges
        )

    def check_part(self, begin: int, end: int, bytes_max: int) -> int:
        """Note damage in a part of the log. Blocks; any thread.

        Args:
            begin: Commit-log offset at which a record begins.
            end: Commit-log offset behind all that is to be checked, in several calls.
            bytes_max: About how much of it this call reads.

        Returns:
            Where the next call begins; ``end`` or more if there is nothing left.

        Raises:
            BytesUnreadable: The disk cannot read it.
        """
        log = self._parts.log
        begin = max(begin, log.min_offset)  # Retention goes on.
        if begin >= min(end, log.write_offset):
            return end
        return self._check_until(begin, min(end, log.write_offset, begin + bytes_max)) or end

    def _check_until(self, begin: int, end: int) -> int:
        """Note damage between two offsets; return where a record begins behind, or 0 if none."""
        for event in scan(self._parts.log.walk(begin), begin):
            if isinstance(event, Ending):
                return 0
            if isinstance(event, Damage):
                self._parts.quarantine.add(event)
            if event.end >= end:
                return event.end
        return 0

    def mend(self, commit_log_offset: int, content: bytes) -> None:
        """Write bytes of another copy into a damaged or missing range. Blocks.

        Nobody reads them before the store was opened anew; see ``mended``.

        Raises:
            StoreFull: No space for a missing segment.
            StorePoisoned: The disk failed.
        """
        parts = self._parts
        start = commit_log_offset - commit_log_offset % parts.log.segment_bytes
        path = parts.log.folder / segment_name(start)

        def write_all() -> None:
            if parts.disk.size_of(path) is None:
                parts.disk.allocate(path, parts.log.segment_bytes)
            file = parts.disk.open(path, writable=True)
            try:
                file.write_at(commit_log_offset - start, content)
                file.flush()
            finally:
                file.close()

        def write() -> None:
            try:
                write_all()
            except OSError as error:
                if not is_exhausted(error):
                    raise
                reason = f"no space to mend the log ({error.strerror})"
                raise StoreFull(parts.files.root, reason) from error

        parts.guard.watch(write)

    def mended(self, ranges: Sequence[LogRange]) -> None:
        """Note, durably, that ranges are whole again. Blocks.

        The next opening reads the whole log, and rebuilds what is derived from it.

        Raises:
            StorePoisoned: The disk failed.
        """
        parts = self._parts

        def note() -> None:
            parts.disk.sync(folders=[parts.log.folder])
            parts.quarantine.lift(ranges)
            parts.quarantine.save()

        parts.guard.watch(note)

    def join_set(self, set_id: str) -> None:
        """Make this log, durably, one of a set. Blocks; repeating is harmless.

        Raises:
            ValueError: It belongs to another set.
            StorePoisoned: The disk failed.
        """
        if set_id == self._set_id:
            return
        if self._set_id:
            raise ValueError(f"the log belongs to the set {self._set_id}")
        self._parts.guard.run(lambda: self._set_file.save({"set_id": set_id}))
        self._set_id = set_id

    def junction(self, commit_log_offset: int) -> Junction:
        """The checksum of the bytes right before an offset, all of one segment.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        log = self._parts.log
        segment = log.segment_at(commit_log_offset - 1)
        if segment is None or commit_log_offset > log.write_offset:
            return Junction(0, 0)
        size = min(JUNCTION_BYTES_MAX, commit_log_offset - segment.start)
        return Junction(size, crc32(segment.read(commit_log_offset - segment.start - size, size)))

    # Epochs.

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """The epochs of the log's records, oldest first; the last may have no record yet."""
        return self._history.starts

    def begin_epoch(self, epoch: int, begin: int | None = None) -> None:
        """Begin an epoch, durably, before its first record is appended.

        Args:
            epoch: Its number, larger than all before.
            begin: Its first commit-log offset; None: the end of the log. In a log without epochs,
                the first epoch covers the whole log.

        Raises:
            ValueError: There is a newer epoch.
            StorePoisoned: The disk failed.
        """
        log = self._parts.log
        if begin is None:
            begin = log.write_offset if self._history.starts else log.min_offset
        place = begin
        self._parts.guard.run(lambda: self._history.begin(epoch, place))

    def adopt_epochs(self, starts: Sequence[EpochStart]) -> None:
        """Take over, durably, the epochs of another copy with the same bytes. Blocks.

        Raises:
            StorePoisoned: The disk failed.
        """
        end = self._parts.log.write_offset
        known = tuple(start for start in starts if start.begin <= end)
        self._parts.guard.run(lambda: self._history.adopt(known))

    # Bytes.

    @property
    def next_offset(self) -> int:
        """Commit-log offset of the byte that ``append`` expects."""
        return self._appender.next_offset

    def read(self, begin: int, end: int, *, bytes_max: int = READ_BYTES_MAX) -> bytes | memoryview:
        """Read bytes of one segment, including records that are not confirmed.

        The bytes may begin and end within records. Replicas need records that are not confirmed,
        since a record is confirmed when the replicas have it.

        Args:
            begin: Commit-log offset of the first byte.
            end: Commit-log offset behind the last byte; the end of the log bounds it.
            bytes_max: How many bytes at most.

        Raises:
            CommitLogOffsetOutOfRange: The log begins behind ``begin``, or ends before it.
            BytesUnreadable: The disk cannot read them.
        """
        parts = self._parts
        parts.check_open()
        log = parts.log
        if not log.min_offset <= begin <= log.write_offset:
            raise CommitLogOffsetOutOfRange(begin, log.min_offset, log.write_offset)
        segment = log.segment_at(begin)
        end = min(end, log.write_offset)
        if segment is None or end <= begin:
            return b""
        position, size = begin - segment.start, min(end, segment.end, begin + bytes_max) - begin
        content = segment.gather([position], [size])
        if content is None:
            return segment.read(position, size)
        return memoryview(content).toreadonly()

    def append(self, commit_log_offset: int, content: bytes | memoryview) -> RawAppended:
        """Append bytes of another copy of this log.

        The bytes may end within a record; the next bytes must continue it.

        Args:
            commit_log_offset: Their place in the other copy; must be ``next_offset``.
            content: The bytes.

        Raises:
            LogPositionMismatch: The bytes belong to another place; nothing is appended.
            RawBytesRefused: The bytes are not valid at their place; the bytes before are appended.
            StoreFull: No space.
            StorePoisoned: The disk failed, now or before.
        """
        return self._appender.append(commit_log_offset, content)

    def forget_waiting(self) -> None:
        """Drop the first part of an incomplete record: it will be sent again."""
        self._appender.forget_waiting()

    def start_at(self, commit_log_offset: int) -> None:
        """Make an empty log begin where a segment of another copy begins. Blocks.

        Raises:
            LogPositionMismatch: The log is not empty, or no segment can start there.
            StoreFull: No space for a segment.
            StorePoisoned: The disk failed.
        """
        log, guard = self._parts.log, self._parts.guard
        if log.write_offset != log.min_offset or commit_log_offset % log.segment_bytes:
            raise LogPositionMismatch(log.write_offset, commit_log_offset)
        if commit_log_offset == log.write_offset:
            return
        guard.run(lambda: log.cut(log.min_offset))
        guard.run(lambda: log.resume_at(commit_log_offset))
        self._keeper.flush_derived()

    def truncate(self, commit_log_offset: int) -> Truncation:
        """Durably cut everything at and behind an offset: log, queues, index, epochs. Blocks.

        The store must not be appended to or read meanwhile. The bytes that replace the cut ones are
        not confirmed: the caller must call ``confirm_up_to`` again.

        Args:
            commit_log_offset: The start of a record, or the end of the log.

        Raises:
            CommitLogOffsetOutOfRange: The offset is outside of the log.
            StorePoisoned: The disk failed.
        """
        self._appender.forget_waiting()
        limit = self._parts.confirm_limit
        if limit is not None:
            self._parts.confirm_limit = min(limit, commit_log_offset)
        return truncate(self._parts, self._keeper, self._history, commit_log_offset)

    # Deleted topics, which are not recorded in the log.

    @property
    def deleted_topic_ends(self) -> Mapping[str, int]:
        """Deleted topics, each with the commit-log offset below which its records are deleted."""
        return self._parts.deleted_topics.ends

    def note_deleted(self, ends: Mapping[str, int]) -> None:
        """Note topics that were deleted in another copy, durably. Any thread, one at a time.

        Their queues are removed at the next opening, for records below the present end of the log.

        Raises:
            StorePoisoned: The disk failed.
        """
        noted, log_end = self._parts.deleted_topics, self._parts.log.write_offset
        fresh = {topic: min(end, log_end) for topic, end in ends.items()}
        fresh = {topic: end for topic, end in fresh.items() if end > noted.end_of(topic)}
        if fresh:
            self._parts.guard.watch(lambda: noted.note(fresh))

    # The end of the records that readers get.

    def confirm_up_to(self, commit_log_offset: int | None) -> None:
        """Hand out no record at or behind an offset; None: the flush mode decides.

        After the first call the limit never falls; only ``truncate`` lowers it.
        """
        known = self._parts.confirm_limit
        if known is not None and commit_log_offset is not None:
            commit_log_offset = max(known, commit_log_offset)
        self._parts.confirm_limit = commit_log_offset
