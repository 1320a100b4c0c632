"""Whether records belong to a queue, by their topic, queue id and positions.

An entry of a consume queue is 20 bytes without a checksum, in a file that may be exchanged for
another queue's. So the record that it points to is compared with it before a reader gets it::

    0      4       8          12       16     20             28                   36        84
    +------+-------+----------+--------+------+--------------+-------------------+-- ... --+------
    | size | magic | body CRC |queue id| flag | queue offset | commit-log offset |         | body,
    +------+-------+----------+--------+------+--------------+-------------------+-- ... --+------
    =       V1/V2               =               =              =                             topic =
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import SystemFlag
from ariane_record.layout import (
    HEADER,
    HEADER_BYTES,
    HOST_FLAGS,
    IPV6_EXTRA_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    ByteBuffer,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_storage.log.records.fields import FIELD_STARTS, Int64s

_BODY_LENGTH_START: Final = FIELD_STARTS["body_length"]
_PROPERTIES_LENGTH_BYTES: Final = 2
_unpack_front = Struct(">iI4xi4xqqi").unpack_from
"""Size, magic code, queue id, queue offset, commit-log offset and system flag of a record."""
_unpack_length = Struct(">i").unpack_from
_IPV6_HOSTS: Final = (SystemFlag.BORN_HOST_IPV6, SystemFlag.STORE_HOST_IPV6)


@dataclass(frozen=True, slots=True)
class QueueIdentity:
    """The fields that all records of a queue share."""

    queue_id: int
    """Number of the queue within its topic."""
    counted_topics: dict[int, bytes]
    """By magic code, the topic behind its length."""
    begin: int
    """Commit-log offset below which records of the topic are deleted: they belong to an earlier
    queue of the same name."""

    def holds_one(
        self, record: ByteBuffer, commit_log_offset: int, size: int, queue_offset: int
    ) -> bool:
        """Whether a record is the one of an entry.

        Args:
            record: ``size`` bytes, at least ``RECORD_BYTES_MIN``.
            commit_log_offset: The start of the record.
            size: Its size in bytes.
            queue_offset: Its queue offset.
        """
        place = self.topic_place(record, commit_log_offset, size, queue_offset)
        if place is None:
            return False
        begin, counted = place
        return record[begin : begin + len(counted)] == counted

    def topic_place(
        self, front: ByteBuffer, commit_log_offset: int, size: int, queue_offset: int
    ) -> tuple[int, bytes] | None:
        """The place and the bytes of the topic that a record must have; None for another record.

        Args:
            front: The bytes of the record before its body, or more.
            commit_log_offset: The start of the record.
            size: Its size in bytes.
            queue_offset: Its queue offset.
        """
        found_size, magic, queue_id, found_queue_offset, position, flags = _unpack_front(front)
        counted = self.counted_topics.get(magic)
        if (
            counted is None
            or (found_size, queue_id) != (size, self.queue_id)
            or (found_queue_offset, position) != (queue_offset, commit_log_offset)
            or commit_log_offset < self.begin
        ):
            return None
        shift = 0
        if flags & HOST_FLAGS:
            shift = IPV6_EXTRA_BYTES * sum(bool(flags & host) for host in _IPV6_HOSTS)
        if HEADER_BYTES + shift > size:
            return None
        (body_length,) = _unpack_length(front, _BODY_LENGTH_START + shift)
        begin = HEADER_BYTES + shift + body_length
        if body_length < 0 or begin + len(counted) + _PROPERTIES_LENGTH_BYTES > size:
            return None
        return begin, counted

    def holds(
        self,
        buffer: ByteBuffer,
        starts: Int64s,
        sizes: Int64s,
        commit_log_offsets: Int64s,
        queue_offsets: Int64s,
    ) -> NDArray[np.bool_]:
        """Whether records belong to their entries.

        Args:
            buffer: The buffer of the records.
            starts: The start of each record in it; at least one.
            sizes: Bytes of each; all inside the buffer.
            commit_log_offsets: The start of each in the commit log.
            queue_offsets: Of each.
        """
        if int(sizes.min()) < RECORD_BYTES_MIN:
            # No record is so small: at unreadable positions the size differs from the entry's.
            starts = np.where(sizes < RECORD_BYTES_MIN, 0, starts)
        # One pass over the log, which is not in the processor's caches, for all of these.
        header = _taken(buffer, f"V{HEADER_BYTES}", starts).view(HEADER)
        mask: NDArray[np.bool_] = (
            (sizes >= RECORD_BYTES_MIN)
            & (header["commit_log_offset"] == commit_log_offsets)
            & (header["size"] == sizes)
            & (header["queue_offset"] == queue_offsets)
            & (header["queue_id"] == self.queue_id)
        )
        if int(commit_log_offsets[0]) < self.begin:
            mask &= commit_log_offsets >= self.begin
        ends = starts + sizes
        lengths, bodies = header["body_length"].astype(np.int64), starts + HEADER_BYTES
        flags = header["system_flag"]
        if bool((flags & HOST_FLAGS).any()):
            for host in _IPV6_HOSTS:
                bodies += np.where(flags & host, IPV6_EXTRA_BYTES, 0)
            mask &= bodies <= ends
            safe = np.where(mask, bodies, starts + HEADER_BYTES)
            lengths = _taken(buffer, ">i4", safe - 4).astype(np.int64)
        mask &= lengths >= 0
        magics = header["magic"]
        known = np.zeros(len(starts), np.bool_)
        for magic, counted in self.counted_topics.items():
            of_this = magics == magic
            if bool(of_this.any()):
                known |= of_this & _have_topic(buffer, counted, bodies + lengths, ends, mask)
        return mask & known


def _have_topic(
    buffer: ByteBuffer, counted: bytes, places: Int64s, ends: Int64s, mask: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which records have a topic at a place; only the masked ones are checked."""
    inside = mask & (places + (len(counted) + _PROPERTIES_LENGTH_BYTES) <= ends)
    if bool(inside.all()):
        topics = _taken(buffer, f"V{len(counted)}", places)
        if topics.tobytes() == counted * len(places):
            return inside
    else:
        # An invalid place is never followed: it is replaced by a readable one.
        topics = _taken(buffer, f"V{len(counted)}", np.where(inside, places, 0))
    same: NDArray[np.bool_] = topics == np.frombuffer(counted, topics.dtype)
    return inside & same


def _taken(buffer: ByteBuffer, dtype: str, places: Int64s) -> NDArray[np.void]:
    """Read a value at each place, in any order: damaged entries may point anywhere."""
    kind = np.dtype(dtype)
    count = len(buffer) - kind.itemsize + 1
    taken: NDArray[np.void] = np.ndarray((count,), kind, buffer=buffer, strides=(1,))[places]
    return taken


@lru_cache(maxsize=16_384)
def identity_of(topic: str, queue_id: int, begin: int) -> QueueIdentity:
    """The fields that all records of a queue share; see ``QueueIdentity``."""
    magic, counted = counted_topic(topic)
    topics = {magic: counted}
    if magic == MAGIC_V1:
        # Other programs may use the wide length for a short topic, too.
        topics[MAGIC_V2] = len(topic.encode()).to_bytes(2, "big") + topic.encode()
    return QueueIdentity(queue_id, topics, begin)
