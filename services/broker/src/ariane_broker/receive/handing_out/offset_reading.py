"""Reading messages of a queue by their offsets, also by offsets that lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.queue_key import QueueKey
from ariane_broker.turn_budget import TurnBudget
from ariane_storage.disk.cold import IN_MEMORY
from ariane_storage.log.records.fields import FIELD_STARTS, FieldColumn, Int64s
from ariane_storage.reading.filter import Filter
from ariane_storage.store import Store

GAP_MAX: Final = 64
"""Reading up to this many unneeded messages along takes less time than one more call."""

_NO_OFFSETS: Final = np.empty(0, np.int64)
_NO_SIZES: Final = np.empty(0, np.int32)


class FoundRecords:
    """Records that were read."""

    __slots__ = ("chunks", "end", "expired_count", "lost_offsets", "offsets", "sizes")

    def __init__(
        self,
        offsets: Int64s = _NO_OFFSETS,
        sizes: NDArray[np.int32] = _NO_SIZES,
        chunks: Sequence[memoryview] = (),
        *,
        end: int = 0,
        lost_offsets: Int64s = _NO_OFFSETS,
        expired_count: int = 0,
    ) -> None:
        self.offsets = offsets
        """Their queue offsets, ascending."""
        self.sizes = sizes
        """Bytes of each."""
        self.chunks = chunks
        """The records, back to back."""
        self.end = end
        """All asked messages below this offset were looked at."""
        self.lost_offsets = lost_offsets
        """Queue offsets below the end whose messages are damaged."""
        self.expired_count = expired_count
        """Messages that were passed over because they have expired."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(map(len, self.chunks))

    def add(self, other: FoundRecords) -> None:
        """Append records that were read behind these."""
        self.offsets = np.concatenate((self.offsets, other.offsets))
        self.sizes = np.concatenate((self.sizes, other.sizes))
        self.chunks = [*self.chunks, *other.chunks]
        self.end = other.end
        self.expired_count += other.expired_count

    def column(self, name: str, kind: str) -> NDArray[np.int64]:
        """A field of the header of each record."""
        starts = np.cumsum(self.sizes, dtype=np.int64) - self.sizes
        if not len(starts):
            return _NO_OFFSETS
        buffer = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        places = starts + FIELD_STARTS[name]
        return FieldColumn(buffer, kind, places, 0).get().astype(np.int64)

    def only(self, wanted: NDArray[np.bool_]) -> FoundRecords:
        """The records that the mask selects."""
        if bool(wanted.all()):
            return self
        octets = np.frombuffer(b"".join(self.chunks), np.uint8)
        kept = octets[np.repeat(wanted, self.sizes)]
        return FoundRecords(
            self.offsets[wanted],
            self.sizes[wanted],
            [memoryview(kept.tobytes())],
            end=self.end,
            expired_count=self.expired_count,
        )


NOTHING_FOUND: Final = FoundRecords()
"""Shared: nothing is added to it."""


def read_from(
    store: Store,
    queue: QueueKey,
    begin: int,
    *,
    count_max: int,
    bytes_max: int,
    wanted: Filter | None,
    budget: TurnBudget,
    now_ms: int = 0,
) -> FoundRecords:
    """Read the messages of a queue that pass a filter, from an offset on; counts it.

    Raises:
        StorageError: As ``Store.read_queue``.
        BytesCold: It is not in memory.
    """
    with IN_MEMORY:
        read = store.read_queue(
            *queue,
            begin,
            max_count=count_max,
            max_bytes=bytes_max,
            wanted=wanted,
            now_ms=now_ms,
        )
    budget.count_read(read.looked_at_bytes, wanted)
    end = int(read.next_queue_offset)
    sizes = read.sizes.astype(np.int32, copy=False)
    found = FoundRecords(
        sizes=sizes,
        chunks=read.chunks,
        end=end,
        lost_offsets=read.lost_offsets,
        expired_count=read.expired_count,
    )
    if len(sizes) == end - begin:
        found.offsets = np.arange(begin, end, dtype=np.int64)
    else:
        found.offsets = found.column("queue_offset", ">i8")
    return found


def read_offsets(
    store: Store,
    queue: QueueKey,
    offsets: Int64s,
    *,
    bytes_max: int,
    wanted: Filter | None,
    budget: TurnBudget,
    now_ms: int = 0,
) -> FoundRecords:
    """Read messages by their offsets, as many as bytes and budget allow, and at least one.

    Args:
        store: The store that has them.
        queue: Their queue.
        offsets: Ascending.
        bytes_max: Bytes of records at most.
        wanted: The filter.
        budget: What this turn may examine. One read is made even if it is spent.
        now_ms: What has expired by then is passed over; 0: nothing is.

    Returns:
        The messages that exist and pass the filter.

    Raises:
        StorageError: As ``Store.read_queue``.
    """
    found = FoundRecords()
    bytes_left = bytes_max
    for begin, behind in _spans(offsets):
        first = begin
        while first < behind and (bytes_left > 0 or not len(found.offsets)):
            part = read_from(
                store,
                queue,
                first,
                count_max=behind - first,
                bytes_max=max(1, bytes_left),
                wanted=wanted,
                budget=budget,
                now_ms=now_ms,
            )
            if part.end <= first:
                return found
            bytes_left -= part.size_bytes
            first = part.end
            asked = np.isin(part.offsets, offsets, assume_unique=True)
            found.add(part.only(asked))
            if budget.is_spent():
                return found
        if first < behind:
            break
    return found


def _spans(offsets: Int64s) -> Sequence[tuple[int, int]]:
    """First and end (exclusive) of each span that one call reads."""
    begins = np.flatnonzero(np.diff(offsets, prepend=offsets[:1] - GAP_MAX - 1) > GAP_MAX)
    lasts = np.append(begins[1:], len(offsets)) - 1
    return list(zip(offsets[begins].tolist(), (offsets[lasts] + 1).tolist(), strict=True))


def within(offsets: Int64s, end: int) -> Int64s:
    """The ascending offsets that are below an end."""
    return offsets[: np.searchsorted(offsets, end)]
