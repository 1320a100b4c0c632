"""A repeated row: whether it equals the stored one, and the first result.

Records lie in the log as they came, except for the fields that the broker fills in, and for IPv6
hosts, which make the header longer::

    came     [size .. both hosts, attempts, half offset][body length, body .. properties][digits]
    stored   [ the same, some of it owned by the broker][             the same          ][digits]
             0                             84 (+ 12, 24)                                 -11

Two parts are compared: all bytes from the half offset to the digits of the record's checksum, and
in the header the fields that the producer fills in. For plain messages the broker fills in more,
with new values each time (unique ids, times of birth): there only the flag and the checksum of the
body count.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.log.derived.producer_stream import StoredBatch
from ariane_record import RecordTable
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    ByteBuffer,
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
    store: Store,
    table: RecordTable,
    queue_id: int,
    stored: StoredBatch,
    *,
    is_plain: bool,
) -> bool:
    """Whether a row is the batch that is stored under its sequence numbers.

    Records that the log has lost cannot be compared: for them the sequence numbers and the size of
    the batch decide.

    Args:
        store: The store.
        table: The row that came.
        queue_id: The queue in which it was stored.
        stored: The stored batch of the same numbers, with as many records.
        is_plain: Whether the broker encoded it from plain messages.
    """
    extra = _extra_bytes(table, stored)
    if extra is None or not _is_whole(table):
        return False
    places = _places(table, stored, extra)
    queue_offsets = np.arange(table.count, dtype=np.int64) + stored.first_queue_offset
    sizes = table.sizes.astype(np.int64) + extra
    records, kept_sizes, _ = store.records_of((table.topic, queue_id), queue_offsets, places, sizes)
    if len(kept_sizes) < table.count:
        return not _is_kept(store, stored.commit_log_offset)
    return np.array_equal(
        _compared(table.records, sizes - extra, 0, is_plain=is_plain),
        _compared(records, sizes, extra, is_plain=is_plain),
    )


def first_result(stored: StoredBatch, table: RecordTable) -> Appended:
    """The result that was returned for the first copy of a batch."""
    return Appended.of_row(
        stored.first_queue_offset,
        (stored.commit_log_offset, stored.next_commit_log_offset),
        stored.store_timestamp_ms,
        _places(table, stored, _extra_bytes(table, stored) or 0),
    )


def _is_whole(table: RecordTable) -> bool:
    """Whether the sizes can be those of the records; nothing else was checked before."""
    smallest, total = int(table.sizes.min()), int(table.sizes.sum(dtype=np.int64))
    return smallest >= HEADER_BYTES + CRC_PROPERTY_BYTES and total == len(table.records)


def _extra_bytes(table: RecordTable, stored: StoredBatch) -> int | None:
    """How many bytes longer each stored record is; None if the sizes cannot fit."""
    extra, odd = divmod(stored.size_bytes - table.size_bytes, table.count)
    return extra if not odd and extra in {0, IPV6_EXTRA_BYTES, 2 * IPV6_EXTRA_BYTES} else None


def _places(table: RecordTable, stored: StoredBatch, extra: int) -> Int64s:
    """Commit-log offset of each record of the stored batch."""
    sizes = table.sizes.astype(np.int64) + extra
    return np.cumsum(sizes) - sizes + stored.commit_log_offset


def _is_kept(store: Store, commit_log_offset: int) -> bool:
    """Whether the log still has the first record: then the others are elsewhere than expected."""
    try:
        store.message_at(commit_log_offset)
    except StorageError:
        return False
    return True


def _compared(
    records: ByteBuffer, sizes: Int64s, extra: int, *, is_plain: bool
) -> NDArray[np.uint8]:
    """The bytes of records that count: of headers, and all behind them up to the checksums."""
    every = np.frombuffer(records, np.uint8)
    starts = np.cumsum(sizes) - sizes
    places = starts[:, None] + (_BODY_AND_FLAG if is_plain else _SENDERS_OWN)
    fields: NDArray[np.uint8] = every[places].ravel()
    if is_plain:
        return fields
    # +1 where a stretch to compare begins, -1 where it ends.
    edges = np.zeros(len(every) + 1, np.int8)
    edges[starts + HEADER_BYTES - _BODY_LENGTH_BYTES + extra] = 1
    edges[starts + sizes - _DIGITS_BYTES] = -1
    return np.concatenate((fields, every[np.cumsum(edges[:-1], dtype=np.int8).astype(bool)]))
