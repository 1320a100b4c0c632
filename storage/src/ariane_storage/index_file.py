"""An index file: finds messages by key, newest first.

::

    index/20231114221320000       named after the local time at which it was made

    0                40                      40 + 4 * slots             + 20 * items
    +----------------+-----------------------+--------------------------+
    | header         | slots: i32 each       | items: 20 bytes each     |
    +----------------+-----------------------+--------------------------+

    header:  begin timestamp i64 | end timestamp i64 | begin offset i64 | end offset i64 |
             slots in use i32 | item count i32 (starts at 1: item 0 is never used)
    slot:    number of the newest item of its chain, 0 for none
    item:    key hash i32 | commit-log offset i64 | seconds since begin i32 | previous item i32

The hash of ``topic#key`` picks slot ``hash % slots``; the items of a slot form a chain from the
newest to the oldest. Items are only ever added, in the order of the log. After a crash the items
below a known offset are whole, and the slots follow from them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_storage.disk import Disk
from ariane_storage.errors import StoreFormatError
from ariane_storage.fields import Int64s

_HEADER: Final = Struct(">qqqqii")
_SLOT_BYTES: Final = 4
_ITEM: Final = np.dtype(
    [
        ("key_hash", ">i4"),
        ("commit_log_offset", ">i8"),
        ("seconds", ">i4"),  # From the begin timestamp of the file to the store timestamp.
        ("previous", ">i4"),  # The next older item of the same slot, 0 for none.
    ]
)
_SECONDS_MAX: Final = 0x7FFFFFFF


def index_file_bytes(slots: int, items: int) -> int:
    """Length of an index file."""
    return _HEADER.size + slots * _SLOT_BYTES + items * _ITEM.itemsize


class IndexFile:
    """One index file, mapped.

    Attributes:
        path: The file.
        begin_timestamp: Store timestamp of its first item, in milliseconds.
        end_timestamp: Store timestamp of its last item.
        begin_offset: Commit-log offset of its first item.
        end_offset: Commit-log offset of its last item.
    """

    def __init__(
        self, disk: Disk, path: Path, *, slots: int, items: int, writable: bool = True
    ) -> None:
        """Map a file that is there.

        Raises:
            StoreFormatError: It has another length than its slots and items make.
        """
        self.path = path
        self._file = disk.map(path, writable=writable)
        view = self._file.view
        if len(view) != index_file_bytes(slots, items):
            self._file.close()
            raise StoreFormatError(
                path, f"{len(view)} bytes long, {index_file_bytes(slots, items)} are configured"
            )
        self._slot_count = slots
        self._items_max = items
        self._view = view
        items_start = _HEADER.size + slots * _SLOT_BYTES
        self._slots: NDArray[np.int32] = np.frombuffer(view, ">i4", slots, _HEADER.size)
        self._items: NDArray[np.void] = np.frombuffer(view, _ITEM, items, items_start)
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self._slots_used,
            self._next_item,
        ) = _HEADER.unpack_from(view)
        # A new file says 0: its first item is number 1.
        self._next_item = min(max(self._next_item, 1), items)

    @property
    def item_count(self) -> int:
        """Items in it."""
        count: int = self._next_item - 1
        return count

    @property
    def room(self) -> int:
        """Items that it still takes."""
        room: int = self._items_max - self._next_item
        return room

    def preset(self, previous: IndexFile) -> None:
        """Let an empty file begin where another ended."""
        self.begin_timestamp = self.end_timestamp = previous.end_timestamp
        self.begin_offset = self.end_offset = previous.end_offset
        self._write_header()

    def insert(self, key_hashes: Int64s, commit_log_offsets: Int64s, timestamps: Int64s) -> None:
        """Add items, no more than there is room for. One thread; others may look for items.

        Args:
            key_hashes: One for each item, not negative.
            commit_log_offsets: Of the record of each, ascending.
            timestamps: Store timestamp of each, in milliseconds.
        """
        count = len(key_hashes)
        if self.item_count == 0:
            self.begin_timestamp = int(timestamps[0])
            self.begin_offset = int(commit_log_offsets[0])
        numbers = np.arange(self._next_item, self._next_item + count)
        slots = key_hashes % self._slot_count
        # Items of one slot, in their order, side by side: each is the previous one of the next.
        order = _stable_order(slots)
        sorted_slots = slots[order]
        first_of_slot = np.empty(count, np.bool_)
        first_of_slot[0] = True
        np.not_equal(sorted_slots[1:], sorted_slots[:-1], out=first_of_slot[1:])
        in_slots = self._slots[sorted_slots[first_of_slot]]
        previous = np.empty(count, np.int64)
        previous[order[1:]] = numbers[order[:-1]]
        # A number beyond the items is left over from a crash: the chain ends there.
        previous[order[first_of_slot]] = np.where(in_slots < self._next_item, in_slots, 0)
        items = self._items[self._next_item : self._next_item + count]
        items["key_hash"] = key_hashes
        items["commit_log_offset"] = commit_log_offsets
        seconds = (timestamps - self.begin_timestamp) // 1000
        items["seconds"] = np.clip(seconds, 0, _SECONDS_MAX)
        items["previous"] = previous
        # In this order: whoever looks beside must not meet a slot that leads beyond the items.
        self._next_item += count
        last_of_slot = np.roll(first_of_slot, -1)
        self._slots[sorted_slots[last_of_slot]] = numbers[order[last_of_slot]].astype(">i4")
        self._slots_used += int(np.count_nonzero(in_slots == 0))
        self.end_timestamp = int(timestamps[-1])
        self.end_offset = int(commit_log_offsets[-1])
        self._write_header()

    def _write_header(self) -> None:
        _HEADER.pack_into(
            self._view,
            0,
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self._slots_used,
            self._next_item,
        )

    def find(self, key_hash: int) -> Iterator[tuple[int, int]]:
        """Items of a hash, newest first: commit-log offset and store timestamp to the second."""
        number = int(self._slots[key_hash % self._slot_count])
        below = self._next_item
        # Numbers only fall along a chain: one that does not is damage, and no endless loop.
        while 0 < number < below:
            item = self._items[number]
            if int(item["key_hash"]) == key_hash:
                seconds = int(item["seconds"])
                yield int(item["commit_log_offset"]), self.begin_timestamp + seconds * 1000
            below, number = number, int(item["previous"])

    def count_below(self, commit_log_end: int) -> int:
        """Items of records below a commit-log offset."""
        offsets = self._items["commit_log_offset"]
        numbers = range(1, self._next_item)
        return bisect_left(numbers, commit_log_end, key=lambda number: int(offsets[number]))

    def offsets(self) -> Int64s:
        """Commit-log offsets of all items, oldest first."""
        return self._items[1 : self._next_item]["commit_log_offset"].astype(np.int64)

    def item_position(self, number: int) -> int:
        """Where an item lies in the file, in bytes."""
        return _HEADER.size + self._slot_count * _SLOT_BYTES + number * _ITEM.itemsize

    def count_unfound(self) -> int:
        """Items to which the chain of their slot does not lead, as nothing but damage makes it."""
        items = self._items[1 : self._next_item]
        # In 32 bits: a full file has twenty million items.
        slots = items["key_hash"].astype(np.int32) % np.int32(self._slot_count)
        order = _stable_order(slots)
        slots = slots[order]
        # Items of one slot side by side, oldest first: each leads to the one before it.
        found = items["previous"][order].astype(np.int32)
        numbers = order.astype(np.int32) + np.int32(1)
        del order
        same_slot = slots[1:] == slots[:-1]
        wrong = np.zeros(len(numbers), np.bool_)
        wrong[:1] = found[:1] != 0
        wrong[1:] = found[1:] != np.where(same_slot, numbers[:-1], 0)
        newest = np.ones(len(numbers), np.bool_)
        newest[:-1] = ~same_slot
        wrong |= newest & (self._slots[slots] != numbers)
        return int(np.count_nonzero(wrong))

    def keep_below(self, commit_log_end: int) -> None:
        """Forget items of records at or above an offset, and build the slots again.

        What lies below is known to be whole; behind it there may be anything.
        """
        items = self._items[1 : self._next_item]
        offsets = items["commit_log_offset"].astype(np.int64)
        whole = offsets < commit_log_end
        whole[1:] &= offsets[1:] >= offsets[:-1]
        count = len(whole) if bool(whole.all()) else int(np.argmin(whole))
        kept = items[:count]
        self._slots[:] = 0
        # Of items that share a slot the last one is assigned last, and stays.
        self._slots[kept["key_hash"].astype(np.int64) % self._slot_count] = np.arange(1, count + 1)
        self._items[count + 1 : self._next_item] = np.zeros((), _ITEM)
        self._next_item = count + 1
        self._slots_used = int(np.count_nonzero(self._slots))
        if count:
            self.begin_offset = int(offsets[0])
            self.end_offset = int(offsets[count - 1])
            self.end_timestamp = self.begin_timestamp + int(kept["seconds"][-1]) * 1000
        self._write_header()

    def flush(self) -> None:
        """Make it durable.

        Raises:
            OSError: The disk failed.
        """
        self._file.flush()

    def close(self) -> None:
        """Let go of its memory."""
        self._file.close()


def _stable_order(slots: Int64s) -> Int64s:
    """``argsort``, stable, of numbers below 2**32.

    numpy sorts 16 bits by radix, which makes two such sorts four times as fast as one of 64 bits.
    """
    by_low = np.argsort((slots & 0xFFFF).astype(np.uint16), kind="stable")
    high = (slots >> 16).astype(np.uint16)[by_low]
    order: Int64s = by_low[np.argsort(high, kind="stable")]
    return order
