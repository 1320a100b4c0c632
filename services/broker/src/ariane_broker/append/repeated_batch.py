"""A batch that comes again: whether it is the one that is stored, and its first result.

Records lie in the log as they came, but for what the broker fills in, and hosts of IPv6, which make
the header of each longer::

    came     [size .. both hosts, attempts, half offset][body length, body .. properties][digits]
    stored   [ the same, some of it owned by the broker][             the same          ][digits]
             0                             84 (+ 12, 24)                                 -11

Compared are all bytes between the half offset and the digits of the record's checksum, and of the
fields before them those that the producer fills in. Of plain messages the broker fills in more,
each time anew (unique ids, times of birth): there it is the checksums of bodies that count.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.log.derived.producer_sequences import StoredBatch
from ariane_record import RecordBlock
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    ByteBuffer,
    CommitLogOffset,
    QueueOffset,
)
from ariane_storage.errors import StorageError
from ariane_storage.log.records.fields import Int64s
from ariane_storage.store import Store
from ariane_storage.writing.append import Appended

_BODY_LENGTH_BYTES: Final = 4
_DIGITS_BYTES: Final = CRC_PROPERTY_BYTES - len(CRC_PROPERTY_PREFIX)
_BODY_AND_FLAG: Final = np.r_[8:12, 16:20]
"""Body checksum and flag: where they are in any record."""

_SENDERS_OWN: Final = np.r_[_BODY_AND_FLAG, 40:48]
"""The same with the time of birth."""


def is_stored_as(
    log: Store,
    block: RecordBlock,
    queue_id: int,
    stored: StoredBatch,
    *,
    is_plain: bool,
) -> bool:
    """Whether a block is the batch that is stored with its numbers.

    Records that the log has lost cannot be compared: there the numbers, and the size
    of the batch, are all that counts.

    Args:
        log: The store.
        block: The block that came.
        queue_id: The queue of its topic that it was stored in.
        stored: The batch of the same numbers, with as many records.
        is_plain: Whether the broker encoded it from plain messages.
    """
    extra = _extra_bytes(block, stored)
    if extra is None or not _is_whole(block):
        return False
    places = _places(block, stored, extra)
    queue_offsets = np.arange(block.count, dtype=np.int64) + stored.first_queue_offset
    sizes = block.sizes.astype(np.int64) + extra
    records, kept_sizes, _ = log.records_of((block.topic, queue_id), queue_offsets, places, sizes)
    if len(kept_sizes) < block.count:
        return not _is_kept(log, stored.commit_log_offset)
    came_sizes = sizes - extra
    fields = _BODY_AND_FLAG if is_plain else _SENDERS_OWN
    if not np.array_equal(
        _fields(block.records, came_sizes, fields), _fields(records, sizes, fields)
    ):
        return False
    return is_plain or np.array_equal(
        _behind_headers(block.records, came_sizes, 0), _behind_headers(records, sizes, extra)
    )


def first_result(stored: StoredBatch, block: RecordBlock) -> Appended:
    """What the first copy of a batch was answered with."""
    return Appended(
        first_queue_offset=QueueOffset(stored.first_queue_offset),
        count=stored.record_count,
        first_commit_log_offset=CommitLogOffset(stored.commit_log_offset),
        next_commit_log_offset=CommitLogOffset(stored.next_commit_log_offset),
        store_timestamp_ms=stored.store_timestamp_ms,
        commit_log_offsets=_places(block, stored, _extra_bytes(block, stored) or 0),
    )


def _is_whole(block: RecordBlock) -> bool:
    """Whether its sizes may be those of its records: nobody has looked at it yet."""
    smallest, total = int(block.sizes.min()), int(block.sizes.sum(dtype=np.int64))
    return smallest >= HEADER_BYTES + CRC_PROPERTY_BYTES and total == len(block.records)


def _extra_bytes(block: RecordBlock, stored: StoredBatch) -> int | None:
    """By how much each stored record is longer; None when that cannot be."""
    extra, odd = divmod(stored.size_bytes - block.size_bytes, block.count)
    return extra if not odd and extra in {0, IPV6_EXTRA_BYTES, 2 * IPV6_EXTRA_BYTES} else None


def _places(block: RecordBlock, stored: StoredBatch, extra: int) -> Int64s:
    """Where each record of the stored batch starts."""
    sizes = block.sizes.astype(np.int64) + extra
    return np.cumsum(sizes) - sizes + stored.commit_log_offset


def _is_kept(log: Store, commit_log_offset: int) -> bool:
    """Whether the log has the first record: then the others are not where they were looked for."""
    try:
        log.message_at(commit_log_offset)
    except StorageError:
        return False
    return True


def _fields(records: ByteBuffer, sizes: Int64s, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Some bytes of each record."""
    starts = np.cumsum(sizes) - sizes
    found: NDArray[np.uint8] = np.frombuffer(records, np.uint8)[starts[:, None] + positions]
    return found


def _behind_headers(records: ByteBuffer, sizes: Int64s, extra: int) -> NDArray[np.uint8]:
    """All bytes between the headers of records and the digits of their checksums."""
    every = np.frombuffer(records, np.uint8)
    starts = np.cumsum(sizes) - sizes
    # +1 where a stretch to compare begins, -1 where it ends.
    edges = np.zeros(len(every) + 1, np.int8)
    edges[starts + HEADER_BYTES - _BODY_LENGTH_BYTES + extra] = 1
    edges[starts + sizes - _DIGITS_BYTES] = -1
    found: NDArray[np.uint8] = every[np.cumsum(edges[:-1], dtype=np.int8).astype(bool)]
    return found
