"""The sizes of a store's files, which are part of its format.

::

    layout.json    {"version": 1, "segment_bytes": 1073741824, "consume_queue_file_entries": 300000,
                    "index_slots": 5000000, "index_items": 20000000}

A store is opened only with the sizes that it was written with. A store of another program has no
such file: then the sizes are read off its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from ariane_storage.config import StoreConfig
from ariane_storage.disk.disk import Disk, OpenFile
from ariane_storage.errors import StoreFormatError
from ariane_storage.index.index_file import HEADER, ITEM_BYTES, SLOT_BYTES, index_file_bytes
from ariane_storage.log.segment import segment_name, segment_starts
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES
from ariane_storage.state_file import StateFile
from ariane_storage.store_files import StoreFiles

LAYOUT_VERSION: Final = 1
_INDEX_ITEMS_PER_SLOT: Final = 4
_STAMP_DIGITS: Final = 17

_CHUNK_BYTES: Final = 1 << 22

_OFFSET_IN_ITEM: Final = 4
"""The place of the commit-log offset: after the key hash."""

DISK_SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes as a whole."""


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Sizes of files."""

    segment_bytes: int
    """Length of a commit-log segment."""
    consume_queue_file_entries: int
    """Entries of a consume-queue file."""
    index_slots: int
    """Hash slots of an index file."""
    index_items: int
    """Items of an index file."""

    @classmethod
    def of(cls, config: StoreConfig) -> StoreLayout:
        """The sizes that a configuration asks for."""
        return cls(
            config.segment_bytes,
            config.consume_queue_file_entries,
            config.index_slots,
            config.index_items,
        )

    def configure(self, config: StoreConfig) -> StoreConfig:
        """A configuration with these sizes."""
        return replace(config, **asdict(self))


def settle_layout(disk: Disk, files: StoreFiles, config: StoreConfig) -> None:
    """Compare the sizes of a store with the configured ones; write them down for a new store.

    Raises:
        StoreFormatError: They differ, or a newer version of this program wrote the store.
        StateFileDamaged: The file is there and cannot be read.
    """
    wanted = StoreLayout.of(config)
    found = load_layout(disk, files)
    if found is None:
        _check_segments(disk, files, config)
        sizes = {"version": LAYOUT_VERSION, **asdict(wanted)}
        StateFile(files.layout, disk).save(sizes)
        return
    for name, size in asdict(found).items():
        asked = getattr(wanted, name)
        if size != asked:
            raise StoreFormatError(
                files.root, f"was written with {name} = {size}, but {asked} is configured"
            )


def _check_segments(disk: Disk, files: StoreFiles, config: StoreConfig) -> None:
    """Refuse another program's segments before one of them is made longer."""
    length = _segment_bytes(disk, files)
    if length and length != config.segment_bytes:
        raise StoreFormatError(
            files.commit_log,
            f"its longest segment has {length} bytes, but segments of {config.segment_bytes} are "
            "configured",
        )


def load_layout(disk: Disk, files: StoreFiles) -> StoreLayout | None:
    """Load the sizes of a store from its file, or None without one.

    Raises:
        StoreFormatError: A newer version of this program wrote it.
        StateFileDamaged: The file is there and cannot be read.
    """
    state = StateFile(files.layout, disk).load()
    if state is None:
        return None
    version = state.get("version")
    if version != LAYOUT_VERSION:
        raise StoreFormatError(
            files.layout,
            f"store format version {version}; this release knows {LAYOUT_VERSION}",
        )
    return _from_state(files, state)


def _from_state(files: StoreFiles, state: dict[str, Any]) -> StoreLayout:
    try:
        return StoreLayout(
            *(
                int(state[name])
                for name in (
                    "segment_bytes",
                    "consume_queue_file_entries",
                    "index_slots",
                    "index_items",
                )
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreFormatError(files.layout, f"names no sizes ({error})") from error


def find_layout(disk: Disk, files: StoreFiles) -> StoreLayout:
    """The sizes of a store, from its file or else read off the other files.

    Sizes that no file shows are the defaults.

    Raises:
        StoreFormatError: A newer version of this program wrote it.
        StateFileDamaged: The file with its sizes cannot be read.
    """
    stated = load_layout(disk, files)
    if stated is not None:
        return stated
    usual = StoreLayout.of(StoreConfig())
    slots, items = _index_sizes(disk, files, usual)
    return StoreLayout(
        segment_bytes=_segment_bytes(disk, files) or usual.segment_bytes,
        consume_queue_file_entries=_queue_file_entries(disk, files)
        or usual.consume_queue_file_entries,
        index_slots=slots,
        index_items=items,
    )


def check_sizes_known(root: Path, disk: Disk) -> None:
    """Refuse to write into a store whose sizes can only be guessed.

    Raises:
        StoreFormatError: The store has no file with its sizes, and index files of unusual ones.
    """
    files = StoreFiles(root)
    if load_layout(disk, files) is not None:
        return
    layout = find_layout(disk, files)
    wanted = index_file_bytes(layout.index_slots, layout.index_items)
    for name in disk.names(files.index):
        length = disk.size_of(files.index / name)
        if _is_index_name(name) and length not in (0, wanted):
            raise StoreFormatError(
                files.layout,
                f"is missing, and how many slots and items index/{name} has cannot be read off it: "
                "restore it, or start the broker with the sizes that the store was written with, "
                "which writes it again",
            )


def _segment_bytes(disk: Disk, files: StoreFiles) -> int:
    """The longest segment: others may have been cut short."""
    return max(
        (
            disk.size_of(files.commit_log / segment_name(start)) or 0
            for start in segment_starts(disk, files.commit_log)
        ),
        default=0,
    )


def _queue_file_entries(disk: Disk, files: StoreFiles) -> int:
    """The longest consume-queue file of the first queues."""
    longest = 0
    for topic in disk.names(files.consume_queues)[:100]:
        for queue_id in disk.names(files.consume_queues / topic)[:10]:
            folder = files.consume_queues / topic / queue_id
            for start in segment_starts(disk, folder):
                longest = max(longest, disk.size_of(folder / segment_name(start)) or 0)
    return longest // ENTRY_BYTES


def _index_sizes(disk: Disk, files: StoreFiles, usual: StoreLayout) -> tuple[int, int]:
    """Slots and items of the first index file that shows them.

    A file without items does not: then there are four items for each slot, as usual.
    """
    names = [name for name in disk.names(files.index) if _is_index_name(name)]
    for name in names:
        try:
            sizes = sizes_in(disk, files.index / name)
        except OSError:
            continue  # Unreadable bytes are found when the file is opened.
        if sizes is not None:
            return sizes
    for name in names:
        length = disk.size_of(files.index / name) or 0
        fixed = index_file_bytes(0, 0)
        slots, rest = divmod(length - fixed, index_file_bytes(1, _INDEX_ITEMS_PER_SLOT) - fixed)
        if slots > 0 and rest == 0:
            return slots, _INDEX_ITEMS_PER_SLOT * slots
    return usual.index_slots, usual.index_items


def _is_index_name(name: str) -> bool:
    return len(name) == _STAMP_DIGITS and name.isascii() and name.isdigit()


def sizes_in(disk: Disk, path: Path) -> tuple[int, int] | None:
    """Slots and items of an index file; None if its content does not show them.

    The header says how many are in use, but not how many there are; the file's length gives only
    their sum. But the header has the commit-log offset of the last item: the place of that item
    shows where the items begin, and so all sizes. They are confirmed if the slot of that item
    points to it.

    Raises:
        OSError: The disk cannot read it.
    """
    file = disk.open(path, writable=False)
    try:
        length = file.size()
        if length < HEADER.size:
            return None
        *_, end_offset, _, next_item = HEADER.unpack(file.read_at(0, HEADER.size))
        last = next_item - 1
        if end_offset <= 0 or last < 1:
            return None
        for place in _places_of(file, end_offset.to_bytes(8, "big"), length):
            begin = place - _OFFSET_IN_ITEM - ITEM_BYTES * last
            slots, odd = divmod(begin - HEADER.size, SLOT_BYTES)
            items, rest = divmod(length - begin, ITEM_BYTES)
            if not odd and not rest and slots > 0 and items >= next_item:
                key_hash = int.from_bytes(file.read_at(place - _OFFSET_IN_ITEM, 4), "big")
                slot = HEADER.size + SLOT_BYTES * (key_hash % slots)
                newest = int.from_bytes(file.read_at(slot, SLOT_BYTES), "big")
                if newest == last and length == index_file_bytes(slots, items):
                    return slots, items
        return None
    finally:
        file.close()


def _places_of(file: OpenFile, wanted: bytes, length: int) -> Iterator[int]:
    """Positions of some bytes in a file, behind its header."""
    for start in range(HEADER.size, length, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES + len(wanted) - 1, length - start)
        chunk = file.read_at(start, size)
        found = chunk.find(wanted)
        while found >= 0:
            yield start + found
            found = chunk.find(wanted, found + 1)
