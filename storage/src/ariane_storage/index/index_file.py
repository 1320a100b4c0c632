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
newest to the oldest. Items are only added, in the order of the log. After a crash the items below a
known offset are complete, and the slots are rebuilt from them.

Files are read and written by calls. The slots of the file being filled are held in memory;
``flush`` writes the pages of slots that have changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ariane_storage.disk.cold import BytesCold, warm
from ariane_storage.disk.disk import Disk, is_unreadable
from ariane_storage.errors import BytesUnreadable, StoreFormatError
from ariane_storage.log.records.fields import Int64s

HEADER: Final = Struct(">qqqqii")
SLOT_BYTES: Final = 4
_ITEM: Final = np.dtype(
    [
        ("key_hash", ">i4"),
        ("commit_log_offset", ">i8"),
        ("seconds", ">i4"),  # From the begin timestamp of the file to the store timestamp.
        ("previous", ">i4"),  # The next older item of the same slot, 0 for none.
    ]
)
ITEM_BYTES: Final = _ITEM.itemsize
_SECONDS_MAX: Final = 0x7FFFFFFF
_SLOTS_OF_PAGE: Final = 1024
_CHUNK_BYTES: Final = 1 << 22
_unpack_slot = Struct(">i").unpack
_unpack_item = Struct(">iqii").unpack
_Column = Literal["key_hash", "commit_log_offset", "seconds", "previous"]


def index_file_bytes(slots: int, items: int) -> int:
    """Length of an index file."""
    return HEADER.size + slots * SLOT_BYTES + items * _ITEM.itemsize


class IndexFile:
    """One index file."""

    begin_timestamp: int
    """Store timestamp of its first item, in milliseconds since the epoch."""
    end_timestamp: int
    """The same of its last item."""
    begin_offset: int
    """Commit-log offset of its first item."""
    end_offset: int
    """Commit-log offset of its last item."""

    def __init__(
        self, disk: Disk, path: Path, *, slots: int, items: int, writable: bool = True
    ) -> None:
        """Open a file that is there.

        Raises:
            StoreFormatError: It has another length than its slots and items make.
            BytesUnreadable: The disk cannot read its header.
        """
        self.path = path
        """The file."""
        self._file = disk.open(path, writable=writable)
        length = self._file.size()
        if length != index_file_bytes(slots, items):
            self._file.close()
            raise StoreFormatError(
                path, f"{length} bytes long, {index_file_bytes(slots, items)} are configured"
            )
        self._slot_count = slots
        self._items_max = items
        self._slots: NDArray[np.int32] | None = None
        # Pages of slots that have changed since they were written.
        self._changed = np.zeros(slots // _SLOTS_OF_PAGE + 1, np.bool_)
        # How often it has changed, and how much of that is durable: perhaps nothing of what another
        # process has written.
        self._changes, self._durable_changes = 1, 0
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self._slots_used,
            self._next_item,
        ) = HEADER.unpack(self._read(0, HEADER.size))
        # A new file has 0 here: its first item is number 1.
        self._next_item = min(max(self._next_item, 1), items)

    @property
    def item_count(self) -> int:
        """Number of items in the file."""
        count: int = self._next_item - 1
        return count

    @property
    def room(self) -> int:
        """Number of items for which there is room."""
        room: int = self._items_max - self._next_item
        return room

    def hold_slots(self) -> NDArray[np.int32]:
        """The slots, held in memory from now on, for adding items.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        if self._slots is None:
            octets = np.zeros(self._slot_count * SLOT_BYTES, np.uint8)
            end = HEADER.size + len(octets)
            # Reads only written parts: a new file costs neither reads nor memory.
            for first, behind in self._file.written_ranges(HEADER.size):
                for begin in range(first, min(behind, end), _CHUNK_BYTES):
                    size = min(_CHUNK_BYTES, min(behind, end) - begin)
                    place = begin - HEADER.size
                    octets[place : place + size] = np.frombuffer(self._read(begin, size), np.uint8)
            self._slots = octets.view(">i4")
        return self._slots

    def _read(self, position: int, size: int) -> bytes:
        try:
            content = self._file.read_at(position, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
            raise BytesUnreadable(self.path, position, error.strerror or str(error)) from error
        if len(content) < size:
            raise BytesUnreadable(self.path, position + len(content), "the file ends there")
        return content

    def _column(self, name: _Column) -> NDArray[Any]:
        """One field of all items, oldest first."""
        column = np.empty(self.item_count, _ITEM[name].newbyteorder("="))
        for first, items in self._chunks():
            column[first - 1 : first - 1 + len(items)] = items[name]
        return column

    def _chunks(self) -> Iterator[tuple[int, NDArray[np.void]]]:
        """All items, oldest first, many at a time: the number of the first, and the items."""
        step = _CHUNK_BYTES // _ITEM.itemsize
        for first in range(1, self._next_item, step):
            count = min(step, self._next_item - first)
            content = self._read(self.item_position(first), count * _ITEM.itemsize)
            yield first, np.frombuffer(content, _ITEM)

    def preset(self, previous: IndexFile) -> None:
        """Make an empty file begin where another ended."""
        self.begin_timestamp = self.end_timestamp = previous.end_timestamp
        self.begin_offset = self.end_offset = previous.end_offset
        self._write_header()

    def insert(self, key_hashes: Int64s, commit_log_offsets: Int64s, timestamps: Int64s) -> None:
        """Add items, for which there must be room. One thread; others may search meanwhile.

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
        # Items of one slot as neighbours, in order: each is the previous item of the next.
        order = _stable_order(slots)
        sorted_slots = slots[order]
        first_of_slot = np.empty(count, np.bool_)
        first_of_slot[0] = True
        np.not_equal(sorted_slots[1:], sorted_slots[:-1], out=first_of_slot[1:])
        held = self.hold_slots()
        in_slots = held[sorted_slots[first_of_slot]]
        previous = np.empty(count, np.int64)
        previous[order[1:]] = numbers[order[:-1]]
        # A number beyond the items is left from a crash: the chain ends there.
        previous[order[first_of_slot]] = np.where(in_slots < self._next_item, in_slots, 0)
        items = np.empty(count, _ITEM)
        items["key_hash"] = key_hashes
        items["commit_log_offset"] = commit_log_offsets
        seconds = (timestamps - self.begin_timestamp) // 1000
        items["seconds"] = np.clip(seconds, 0, _SECONDS_MAX)
        items["previous"] = previous
        self._file.write_at(self.item_position(self._next_item), items.tobytes())
        # In this order a concurrent query never finds a slot that points beyond the items.
        self._next_item += count
        last_of_slot = np.roll(first_of_slot, -1)
        held[sorted_slots[last_of_slot]] = numbers[order[last_of_slot]].astype(">i4")
        # After the change: a concurrent flush writes the page now, or finds it marked later.
        self._changed[sorted_slots // _SLOTS_OF_PAGE] = True
        self._slots_used += int(np.count_nonzero(in_slots == 0))
        self.end_timestamp = int(timestamps[-1])
        self.end_offset = int(commit_log_offsets[-1])
        self._write_header()

    def _write_header(self) -> None:
        header = HEADER.pack(
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self._slots_used,
            self._next_item,
        )
        self._file.write_at(0, header)
        # After all of it: a concurrent flush that has not seen this leaves it to the next one.
        self._changes += 1

    def find(self, key_hash: int) -> Iterator[tuple[int, int] | BytesCold | None]:
        """Items of a hash, newest first: commit-log offset and store timestamp to the second.

        None for each other item of the same slot; and what must be fetched before the next one.

        Raises:
            BytesUnreadable: The disk cannot read the next of them.
        """
        slot = key_hash % self._slot_count
        if self._slots is not None:
            number = int(self._slots[slot])
        else:
            place = HEADER.size + slot * SLOT_BYTES
            (number,) = _unpack_slot((yield from warm(partial(self._read, place, SLOT_BYTES))))
        below = self._next_item
        # Numbers only fall along a chain: a rising one is damage, and could loop for ever.
        while 0 < number < below:
            item = yield from warm(partial(self._item, number))
            found_hash, commit_log_offset, seconds, previous = item
            is_found = found_hash == key_hash
            timestamp = self.begin_timestamp + seconds * 1000
            yield (commit_log_offset, timestamp) if is_found else None
            below, number = number, previous

    def _item(self, number: int) -> tuple[int, int, int, int]:
        """Read an item: key hash, commit-log offset, seconds and previous item."""
        item: tuple[int, int, int, int] = _unpack_item(
            self._read(self.item_position(number), _ITEM.itemsize)
        )
        return item

    def count_below(self, commit_log_end: int) -> int:
        """Items of records below a commit-log offset."""
        if self.end_offset < commit_log_end:
            return self.item_count
        numbers = range(1, self._next_item)
        return bisect_left(numbers, commit_log_end, key=lambda number: self._item(number)[1])

    def offsets(self) -> Iterator[tuple[int, Int64s]]:
        """Commit-log offsets of all items, oldest first, many at a time.

        Yields:
            The number of the first item, and the offsets.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        for first, items in self._chunks():
            yield first, items["commit_log_offset"].astype(np.int64)

    def item_position(self, number: int) -> int:
        """Byte position of an item in the file."""
        return HEADER.size + self._slot_count * SLOT_BYTES + number * _ITEM.itemsize

    def count_unfound(self) -> int:
        """Number of items that the chain of their slot does not reach; only damage causes that.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        # Of each slot its newest item so far, and whether that one is unfound.
        newest = np.zeros(self._slot_count, np.int32)
        is_unfound = np.zeros(self._slot_count, np.bool_)
        unfound = 0
        for first, items in self._chunks():
            slots = items["key_hash"].astype(np.int32) % np.int32(self._slot_count)
            order = _stable_order(slots)
            slots = slots[order]
            # Items of one slot as neighbours, oldest first: each points to the one before it.
            numbers = (order + first).astype(np.int32)
            begins = np.ones(len(numbers), np.bool_)
            begins[1:] = slots[1:] != slots[:-1]
            wanted = np.roll(numbers, 1)
            wanted[begins] = newest[slots[begins]]
            wrong = items["previous"][order] != wanted
            unfound += int(np.count_nonzero(wrong))
            ends = np.roll(begins, -1)
            newest[slots[ends]] = numbers[ends]
            is_unfound[slots[ends]] = wrong[ends]
        astray = (newest != 0) & ~is_unfound & (self.hold_slots() != newest)
        return unfound + int(np.count_nonzero(astray))

    def keep_below(self, commit_log_end: int) -> None:
        """Forget items of records at or above an offset, and rebuild the slots.

        Items below are known to be complete; later ones may be garbage.

        Raises:
            BytesUnreadable: The disk cannot read them.
        """
        offsets = self._column("commit_log_offset")
        whole = offsets < commit_log_end
        whole[1:] &= offsets[1:] >= offsets[:-1]
        count = len(whole) if bool(whole.all()) else int(np.argmin(whole))
        hashes = self._column("key_hash")[:count].astype(np.int64)
        slots = np.zeros(self._slot_count, ">i4")
        # Of items that share a slot the last one is assigned last, and stays.
        slots[hashes % self._slot_count] = np.arange(1, count + 1)
        for number in range(count + 1, self._next_item, _CHUNK_BYTES // _ITEM.itemsize):
            size = min(_CHUNK_BYTES // _ITEM.itemsize, self._next_item - number) * _ITEM.itemsize
            self._file.write_at(self.item_position(number), bytes(size))
        self._slots = slots
        self._changed[:] = True
        self._next_item = count + 1
        self._slots_used = int(np.count_nonzero(slots))
        if count:
            self.begin_offset = int(offsets[0])
            self.end_offset = int(offsets[count - 1])
            self.end_timestamp = self.begin_timestamp + self._item(count)[2] * 1000
        self._write_header()

    def flush(self) -> None:
        """Make the file durable, unless it is.

        Raises:
            OSError: The disk failed.
        """
        changes = self._changes
        if changes != self._durable_changes or self._changed.any():
            self._write_changed_slots()
            self._file.flush()
            self._durable_changes = changes

    def _write_changed_slots(self) -> None:
        changed = np.flatnonzero(self._changed)
        if self._slots is None or not len(changed):
            return
        # In this order: changes made meanwhile are written by the next flush as well.
        self._changed[changed] = False
        breaks = np.flatnonzero(np.diff(changed) != 1)
        firsts = changed[np.concatenate(([0], breaks + 1))].tolist()
        lasts = changed[np.concatenate((breaks, [len(changed) - 1]))].tolist()
        try:
            for first, last in zip(firsts, lasts, strict=True):
                part = self._slots[first * _SLOTS_OF_PAGE : (last + 1) * _SLOTS_OF_PAGE]
                position = HEADER.size + first * _SLOTS_OF_PAGE * SLOT_BYTES
                if len(part):
                    self._file.write_at(position, part.tobytes())
        except OSError:
            # A disk that is only full is written to again.
            self._changed[changed] = True
            raise

    def close(self) -> None:
        """Release file and memory; a query in progress finishes."""
        self._slots = None


def _stable_order(slots: NDArray[Any]) -> Int64s:
    """``argsort``, stable, of numbers below 2**32.

    numpy sorts 16 bits by radix, which makes two such sorts four times as fast as one of 64 bits.
    """
    by_low = np.argsort((slots & 0xFFFF).astype(np.uint16), kind="stable")
    high = (slots >> 16).astype(np.uint16)[by_low]
    order: Int64s = by_low[np.argsort(high, kind="stable")]
    return order
