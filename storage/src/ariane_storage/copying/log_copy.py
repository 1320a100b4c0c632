"""What an open store offers to other copies of its log, and to the one who keeps them alike.

A primary hands its bytes on; a replica takes them in, at the positions where they lie, and makes
consume queues and index of its own from them. When the primary changes, a replica cuts what the new
one does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ariane_storage.copying.raw_appender import RawAppended, RawAppender
from ariane_storage.copying.truncation import Truncation, truncate
from ariane_storage.errors import CommitLogOffsetOutOfRange, LogPositionMismatch
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.log.epoch_history import EpochHistory, EpochStart
from ariane_storage.parts import StoreParts

READ_BYTES_MAX: Final = 1 << 20
"""Bytes that are read at once unless a caller says something else."""


class LogCopy:
    """The log of a store as one copy of several. The appending thread, but for ``truncate``."""

    def __init__(self, parts: StoreParts, keeper: Keeper) -> None:
        self._parts = parts
        self._keeper = keeper
        self._appender = RawAppender(parts)
        self._history = EpochHistory(parts.disk, parts.files.epochs)
        self._history.load(parts.log.write_offset)

    # Epochs.

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """The epochs that the log has records of, oldest first; perhaps one more that has begun."""
        return self._history.starts

    def begin_epoch(self, epoch: int, begin: int | None = None) -> None:
        """Let an epoch begin, durably, before its first record is appended.

        Args:
            epoch: Its number, above all that there were.
            begin: Where it begins; None: at the end of the log. The first one of a log that was
                kept without epochs takes all of it.

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
        """Take over, durably, the epochs of a copy that agrees with this log to its end. Blocks.

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

    def read(self, begin: int, end: int, *, bytes_max: int = READ_BYTES_MAX) -> bytes:
        """Bytes of the log as they lie, of one segment: what is not confirmed included.

        Records may begin before or end behind them. A replica needs what is not confirmed, since it
        is confirmed by replicas' having it.

        Args:
            begin: Where they begin.
            end: Where they end at the latest; the end of the log bounds them, too.
            bytes_max: How many at most.

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
        return segment.read(begin - segment.start, min(end, segment.end, begin + bytes_max) - begin)

    def append(self, commit_log_offset: int, content: bytes | memoryview) -> RawAppended:
        """Append bytes of another copy of this log.

        They may end within a record; the rest of it is to come next.

        Args:
            commit_log_offset: Where they lie there: ``next_offset``, nothing else.
            content: The bytes.

        Raises:
            LogPositionMismatch: They belong elsewhere; nothing is appended.
            RawBytesRefused: They are not what a log holds there; what lies before is appended.
            StoreFull: No space.
            StorePoisoned: The disk failed, now or before.
        """
        return self._appender.append(commit_log_offset, content)

    def forget_waiting(self) -> None:
        """Forget the beginning of a record whose end has not come: it will come again."""
        self._appender.forget_waiting()

    def start_at(self, commit_log_offset: int) -> None:
        """Let an empty log begin at the start of a segment that another copy has. Blocks.

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

        The store must not be appended to or read meanwhile. What was cut never comes back, and what
        comes in its place is not confirmed: ``confirm_up_to`` has to say so anew.

        Args:
            commit_log_offset: Where a record starts, or the end of the log.

        Raises:
            CommitLogOffsetOutOfRange: The log begins behind it, or ends before it.
            StorePoisoned: The disk failed.
        """
        self._appender.forget_waiting()
        limit = self._parts.confirm_limit
        if limit is not None:
            self._parts.confirm_limit = min(limit, commit_log_offset)
        return truncate(self._parts, self._keeper, self._history, commit_log_offset)

    # Deleted topics, which the log does not say.

    @property
    def deleted_topic_ends(self) -> Mapping[str, int]:
        """Topics that were deleted, and up to where their records are."""
        return self._parts.deleted_topics.ends

    def note_deleted(self, ends: Mapping[str, int]) -> None:
        """Note topics that were deleted in another copy, durably. Any thread, one at a time.

        Their queues go when the store is opened next, as far as the log had come by now.

        Raises:
            StorePoisoned: The disk failed.
        """
        noted, log_end = self._parts.deleted_topics, self._parts.log.write_offset
        fresh = {topic: min(end, log_end) for topic, end in ends.items()}
        fresh = {topic: end for topic, end in fresh.items() if end > noted.end_of(topic)}
        if fresh:
            self._parts.guard.watch(lambda: noted.note(fresh))

    # The end of what may be handed out.

    def confirm_up_to(self, commit_log_offset: int | None) -> None:
        """Hand out nothing at or behind an offset; None: what the flush mode says.

        Never lowers what was confirmed, but for the first time; only ``truncate`` does.
        """
        known = self._parts.confirm_limit
        if known is not None and commit_log_offset is not None:
            commit_log_offset = max(known, commit_log_offset)
        self._parts.confirm_limit = commit_log_offset
