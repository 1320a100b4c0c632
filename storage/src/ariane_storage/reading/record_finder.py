"""Finding single records of an open store: by position, by key, by message id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from ariane_record import RecordCorrupted as Undecodable
from ariane_record import RecordFields, SystemFlag, decode_record
from ariane_record.layout import (
    IPV6_EXTRA_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
)
from ariane_record.single.record_copy import RecordCopy, copy_of
from ariane_storage.disk.cold import BytesCold, warm
from ariane_storage.errors import BytesUnreadable, RecordCorrupted, RecordNotFound
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.record_search import WINDOW_BYTES, find_record, is_plausible
from ariane_storage.log.records.fields import FIELD_STARTS
from ariane_storage.parts import StoreParts

_T = TypeVar("_T")

_unpack_front = Struct(">iI").unpack_from
_unpack_long = Struct(">q").unpack_from
_unpack_flag = Struct(">i").unpack_from
_POSITION_START: Final = FIELD_STARTS["commit_log_offset"]
_FRONT_BYTES: Final = RECORD_BYTES_MIN + IPV6_EXTRA_BYTES
_TIMESTAMP_START: Final = FIELD_STARTS["store_timestamp"]


NO_LIMIT: Final = 1 << 62

STEP_BYTES: Final = 16 << 10
"""A query counts a record that it reads like an item of the index, and again for each so many bytes
of it."""


class KeyQuery(NamedTuple):
    """A query for the messages of a key."""

    topic: str
    """The messages' topic."""
    key: str
    """One of their keys, or their unique id."""
    begin_ms: int = 0
    """Earliest store timestamp, inclusive."""
    end_ms: int = NO_LIMIT
    """Latest store timestamp, inclusive."""
    before: int = NO_LIMIT
    """Only messages before this commit-log offset."""
    max_count: int = 32
    """Messages at most."""
    max_bytes: int = NO_LIMIT
    """The message that reaches so many bytes of bodies is the last."""

    def wants(self, message: RecordFields) -> bool:
        """Whether a message with the right hash matches the query."""
        has_key = self.key == message.unique_id or self.key in message.keys
        in_time = self.begin_ms <= message.store_timestamp_ms <= self.end_ms
        return has_key and in_time and message.topic == self.topic


class RecordFinder:
    """Finds single records. The appending thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def record(self, commit_log_offset: int) -> bytes:
        """The bytes of the record at an offset, not yet checked against its checksum.

        Raises:
            RecordNotFound: No record starts there, or it is not confirmed yet.
            RecordCorrupted: Its size is impossible, or the disk cannot read it.
            StoreClosed: The store was closed.
        """
        parts = self._parts
        parts.check_open()
        if not parts.log.min_offset <= commit_log_offset < parts.confirmed_offset:
            raise RecordNotFound(commit_log_offset)
        try:
            return self._record(commit_log_offset)
        except BytesUnreadable as error:
            # Unless the damage is known already, which also shows that a record starts there.
            if not parts.quarantine.covers(commit_log_offset):
                self._quarantine(commit_log_offset)
            raise RecordCorrupted(commit_log_offset, error.reason) from error

    def _record(self, commit_log_offset: int) -> bytes:
        parts = self._parts
        front = parts.log.read(commit_log_offset, RECORD_BYTES_MIN)
        if front is None:
            raise RecordNotFound(commit_log_offset)
        size, magic = _unpack_front(front)
        own_offset = _unpack_long(front, _POSITION_START)[0]
        if magic not in (MAGIC_V1, MAGIC_V2) or own_offset != commit_log_offset:
            raise RecordNotFound(commit_log_offset)
        segment = parts.log.segment_at(commit_log_offset)
        position = commit_log_offset - (segment.start if segment is not None else 0)
        sound = size >= RECORD_BYTES_MIN and segment is not None
        if size > WINDOW_BYTES and segment is not None:
            sound = is_plausible(segment, position)
        record = parts.log.read(commit_log_offset, size) if sound else None
        if record is None:
            raise RecordCorrupted(commit_log_offset, DamageReason.SIZE)
        return record

    def message_at(self, commit_log_offset: int) -> RecordFields:
        """The message at an offset, checked; see ``Store.message_at``."""
        return self._read(commit_log_offset, decode_record)

    def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """The parts of a record that its copy keeps; see ``Store.copy_at``."""
        return self._read(commit_log_offset, copy_of)

    def _read(self, commit_log_offset: int, read: Callable[[bytes], _T]) -> _T:
        """Read and decode a record; a damaged one is quarantined."""
        record = self.record(commit_log_offset)
        try:
            return read(record)
        except Undecodable as error:
            self._quarantine(commit_log_offset)
            raise RecordCorrupted(commit_log_offset, error.reason) from error

    def store_timestamp_at(self, commit_log_offset: int) -> int:
        """When the record at an offset was stored, in milliseconds."""
        return store_timestamp(self.record(commit_log_offset))

    def by_key(self, query: KeyQuery) -> Iterator[RecordFields | BytesCold | None]:
        """Messages of a key, newest first; see ``Store.search_by_key``."""
        self._parts.check_open()
        deleted_end = self._parts.deleted_topics.end_of(query.topic)
        count_left, bytes_left = query.max_count, query.max_bytes
        seen: set[int] = set()
        for commit_log_offset in self._parts.index.find(
            query.topic, query.key, begin_ms=query.begin_ms, end_ms=query.end_ms
        ):
            if count_left <= 0 or bytes_left <= 0:
                return
            if isinstance(commit_log_offset, BytesCold):
                yield commit_log_offset
                continue
            message = None
            if (
                commit_log_offset is not None
                and commit_log_offset not in seen
                and deleted_end <= commit_log_offset < query.before
            ):
                seen.add(commit_log_offset)
                # Deleted with its segment, not yet confirmed, or damaged, and now quarantined: the
                # query finds the others all the same.
                with suppress(RecordNotFound, RecordCorrupted):
                    message = yield from warm(partial(self.message_at, commit_log_offset))
            if message is not None:
                yield from repeat(None, 1 + len(message.body) // STEP_BYTES)
            if message is None or not query.wants(message):
                yield None
                continue
            count_left -= 1
            bytes_left -= len(message.body)
            yield message

    def _quarantine(self, commit_log_offset: int) -> None:
        """Quarantine a damaged record, up to the next valid one."""
        segment = self._parts.log.segment_at(commit_log_offset)
        if segment is None:
            return
        position = commit_log_offset - segment.start
        front = segment.window(position, RECORD_BYTES_MIN)
        size = 0 if front.unreadable else _unpack_front(front.content)[0]
        end = position + size
        reason = DamageReason.CHECKSUM
        if not (size >= RECORD_BYTES_MIN and end <= segment.length):
            written = min(segment.length, self._parts.log.write_offset - segment.start)
            end = find_record(segment, max(position + 1, front.unreadable_end)) or written
        if segment.window(position, end - position).unreadable:
            reason = DamageReason.UNREADABLE
        self._parts.quarantine.add(Damage(commit_log_offset, segment.start + end, reason))


def store_timestamp(record: bytes | memoryview) -> int:
    """When a record was stored, in milliseconds."""
    flag = _unpack_flag(record, SYSTEM_FLAG_START)[0]
    shift = IPV6_EXTRA_BYTES if flag & SystemFlag.BORN_HOST_IPV6 else 0
    timestamp: int = _unpack_long(record, _TIMESTAMP_START + shift)[0]
    return timestamp
