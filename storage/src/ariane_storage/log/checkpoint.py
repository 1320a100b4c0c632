"""The checkpoint: how far each derived structure is known to be durable.

::

    0        8        16       24       32       40       512        1024       1536       4096
    +--------+--------+--------+--------+--------+--------+----------+----------+----------+
    |commit  |consume |index   |primary |confirm-| zeros  | slot A   | slot B   | mark     |
    |log ms  |queue ms|ms      |flushed |ed      |        |          |          |          |
    +--------+--------+--------+--------+--------+--------+----------+----------+----------+

    slot:  magic u32 | version u32 | sequence u64 | log begin i64 | dispatched i64 | flushed i64 |
           confirmed i64 | store timestamp i64 | queue count u64 | entry sum u64 |
           index item count u64 | crc32 u32
    mark:  magic u32 | flushed i64 | crc32 u32

The first 40 bytes are RocketMQ's (big-endian, store timestamps in milliseconds, then offsets) and
all that a Java broker reads or writes. The slots are ours: written in turn, each in a disk sector
of its own, so that a torn write leaves the other one intact. The slot with the higher sequence
counts. The first bytes are written after the slot is durable, so they always belong to one of the
two slots. If they do not, a Java broker has written to the store since, and no slot is valid.

The mark records, after each flush of the log, how far the log is flushed. It is written but not
synced, so that it costs no second wait for the disk: it survives the process at once, and a power
cut once a slot is written or the system writes the page. Its content was true when written.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Final

from ariane_record.checksums.checksum import crc32
from ariane_storage.disk.disk import Disk, OpenFile, is_unreadable
from ariane_storage.errors import StoreFormatError

CHECKPOINT_BYTES: Final = 4096
FORMAT_VERSION: Final = 1
_SHARED: Final = Struct(">qqqqq")
_SLOT: Final = Struct(">IIQqqqqqQQQ")
_CRC: Final = Struct(">I")
_MAGIC: Final = 0x41524941  # "ARIA"
_SLOT_STARTS: Final = (512, 1024)
_MARK: Final = Struct(">Iq")
_MARK_START: Final = 1536


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The durable state at the time of writing."""

    log_begin: int
    """First commit-log offset that was kept."""
    dispatched_offset: int
    """Consume queues and index have every record below, durably."""
    flushed_offset: int
    """Every record below is durable; as loaded, the mark is included."""
    confirmed_offset: int
    """The largest offset that was handed out."""
    store_timestamp_ms: int
    """Store timestamp of the newest record below ``flushed_offset``."""
    queue_count: int
    """Consume queues with entries in files."""
    entry_sum: int
    """Sum of the ends of their files; see ``QueueSums``."""
    index_item_count: int
    """Items in all index files."""


class CheckpointFile:
    """The file ``checkpoint`` of a store."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._sequence = 0
        # Whether the disk has lost it, so that it must be written as a whole.
        self._is_lost = False
        self._marked: OpenFile | None = None
        # What the file says durably; None if that is not known.
        self._saved: Checkpoint | None = None

    def load(self) -> Checkpoint | None:
        """Load the newest valid checkpoint, or None.

        Raises:
            StoreFormatError: A newer version of this program wrote it.
        """
        try:
            content = self._read()
        except FileNotFoundError:
            return None
        if len(content) < _SLOT_STARTS[-1] + _SLOT.size + _CRC.size:
            return None
        slots = [self._decode_slot(content, start) for start in _SLOT_STARTS]
        sound = sorted((slot for slot in slots if slot is not None), key=itemgetter(0))
        if not sound:
            return None
        self._sequence, newest = sound[-1]
        ours = zip(*(_shared_fields(checkpoint) for _, checkpoint in sound), strict=True)
        shared = _SHARED.unpack_from(content)
        if not all(field in known for field, known in zip(shared, ours, strict=True)):
            return None
        flushed = max(newest.flushed_offset, _marked_offset(content))
        return replace(newest, flushed_offset=flushed)

    def is_damaged(self) -> bool:
        """Whether the file exists without a whole slot; Java brokers leave our slots alone."""
        try:
            content = self._read()
        except FileNotFoundError:
            return False
        if len(content) < _SLOT_STARTS[-1] + _SLOT.size + _CRC.size:
            return True
        return all(self._decode_slot(content, start) is None for start in _SLOT_STARTS)

    def _read(self) -> bytes:
        """The content; empty if the disk cannot read it."""
        try:
            return self._disk.read(self._path)
        except OSError as error:
            if not is_unreadable(error):
                raise
            self._is_lost = True
            return b""

    def _decode_slot(self, content: bytes, start: int) -> tuple[int, Checkpoint] | None:
        end = start + _SLOT.size
        magic, version, sequence, *fields = _SLOT.unpack_from(content, start)
        if magic != _MAGIC or crc32(content[start:end]) != _CRC.unpack_from(content, end)[0]:
            return None
        if version > FORMAT_VERSION:
            raise StoreFormatError(
                self._path,
                f"format version {version} of a newer release; this one knows {FORMAT_VERSION}",
            )
        return sequence, Checkpoint(*fields)

    def save(self, checkpoint: Checkpoint, *, again: bool = False) -> None:
        """Write a checkpoint durably, unless it is there; the previous one stays in its slot.

        Args:
            checkpoint: What to write.
            again: Write it also if it is there.

        Raises:
            OSError: The disk failed.
        """
        is_whole = not self._is_lost and self._disk.size_of(self._path) == CHECKPOINT_BYTES
        if is_whole and checkpoint == self._saved and not again:
            return
        # If this fails halfway, a slot may be durable that nobody has heard of.
        self._saved = None
        if not is_whole:
            self.close()
            self._disk.write(self._path, bytes(CHECKPOINT_BYTES))
            self._disk.sync(folders=[self._path.parent])
            self._is_lost = False
        sequence = self._sequence + 1
        slot = _SLOT.pack(_MAGIC, FORMAT_VERSION, sequence, *astuple(checkpoint))
        file = self._disk.open(self._path, writable=True)
        try:
            start = _SLOT_STARTS[sequence % len(_SLOT_STARTS)]
            file.write_at(start, slot + _CRC.pack(crc32(slot)))
            self._disk.sync(files=[self._path])
            file.write_at(0, _SHARED.pack(*_shared_fields(checkpoint)))
        finally:
            file.close()
        self._disk.sync(files=[self._path])
        self._sequence = sequence
        self._saved = checkpoint

    def mark(self, flushed_offset: int) -> None:
        """Record the durable end of the log, without waiting for the disk. One thread.

        Before the first ``save`` there is no file for the mark, and nothing is recorded.

        Raises:
            OSError: The disk failed.
        """
        file = self._marked
        if file is None:
            if self._is_lost or self._disk.size_of(self._path) != CHECKPOINT_BYTES:
                return
            file = self._marked = self._disk.open(self._path, writable=True)
        # The next checkpoint makes the mark durable, also one like the last.
        self._saved = None
        mark = _MARK.pack(_MAGIC, flushed_offset)
        file.write_at(_MARK_START, mark + _CRC.pack(crc32(mark)))

    def close(self) -> None:
        """Release the file; it closes when no other thread writes to it any more."""
        self._marked = None


def _marked_offset(content: bytes) -> int:
    """The offset in the mark; 0 if it is invalid."""
    mark = content[_MARK_START : _MARK_START + _MARK.size]
    check = content[_MARK_START + _MARK.size : _MARK_START + _MARK.size + _CRC.size]
    if check != _CRC.pack(crc32(mark)):
        return 0
    magic, offset = _MARK.unpack(mark)
    return int(offset) if magic == _MAGIC else 0


def _shared_fields(checkpoint: Checkpoint) -> tuple[int, int, int, int, int]:
    timestamp = checkpoint.store_timestamp_ms
    return timestamp, timestamp, timestamp, 0, checkpoint.confirmed_offset
