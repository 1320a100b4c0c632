"""The epochs of a log: the part that each primary wrote, by the begin of each epoch.

Two copies of a log are equal up to the place where their histories differ; what a replica has
behind that place was never confirmed, and is cut. The file is that of RocketMQ's controller mode,
so that either broker reads what the other has written::

    epochFileCheckpoint

    2               entries that follow
    1234567890      CRC-32 of their lines (zlib's polynomial, the highest bit cleared), decimal
    1-0             epoch 1 begins at commit-log offset 0
    4-81920         epoch 4 begins at 81920, where epoch 1 ends

An entry is on the disk before the first record of its epoch is appended, and is removed after the
log is cut before it. So a history never lacks an epoch of a record in the log; entries beyond the
end of the log, after power loss, mean nothing and are dropped. An epoch without records keeps its
entry, beside the one that begins at the same place: it shows that a log which continues from there
is related.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ariane_record.checksums.checksum import crc32
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged

_CRC_MASK: Final = 0x7FFFFFFF
_ADVICE: Final = "restore it from a copy, or empty the store and let it copy the primary's"


class EpochStart(NamedTuple):
    """An epoch and its begin."""

    epoch: int
    """Its number, from 1."""
    begin: int
    """Commit-log offset of its first record."""


class EpochHistory:
    """The epochs of one log, oldest first. One thread."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._starts: tuple[EpochStart, ...] = ()

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """All epochs."""
        return self._starts

    @property
    def latest(self) -> int:
        """The newest epoch; 0 if there is none."""
        return self._starts[-1].epoch if self._starts else 0

    def load(self, log_end: int) -> None:
        """Load the file.

        Args:
            log_end: The end of the log; epochs that begin beyond it are dropped, durably.

        Raises:
            StateFileDamaged: The epochs are unknown.
            OSError: The disk failed.
        """
        try:
            content = self._disk.read(self._path)
        except FileNotFoundError:
            self._starts = ()
            return
        try:
            starts = decode_history(content)
        except ValueError as error:
            raise StateFileDamaged(self._path, f"{error}: {_ADVICE}") from error
        self._starts = starts
        kept = tuple(start for start in starts if start.begin <= log_end)
        if kept != starts:
            # A log that grows again must not find them: its bytes there are other ones.
            self._save(kept)

    def begin(self, epoch: int, begin: int) -> None:
        """Begin an epoch at an offset, durably; drops epochs that begin later.

        Raises:
            ValueError: There is a newer epoch.
            OSError: The disk failed.
        """
        kept = tuple(start for start in self._starts if start.begin <= begin)
        if kept and kept[-1].epoch >= epoch:
            raise ValueError(f"epoch {epoch} cannot follow epoch {kept[-1].epoch}")
        self._save((*kept, EpochStart(epoch, begin)))

    def keep_below(self, log_end: int) -> None:
        """Drop, durably, epochs without any record in the log, which was cut.

        Raises:
            OSError: The disk failed.
        """
        kept = tuple(start for start in self._starts if start.begin < log_end)
        if kept != self._starts:
            self._save(kept)

    def adopt(self, starts: Sequence[EpochStart]) -> None:
        """Take over, durably, the epochs of another copy of the same log.

        Raises:
            OSError: The disk failed.
        """
        if tuple(starts) != self._starts:
            self._save(tuple(starts))

    def _save(self, starts: tuple[EpochStart, ...]) -> None:
        folder = self._path.parent
        written = self._path.with_name(self._path.name + ".tmp")
        self._disk.write(written, encode_history(starts))
        self._disk.rename(written, self._path)
        self._disk.sync(folders=[folder])
        self._starts = starts


def encode_history(starts: Sequence[EpochStart]) -> bytes:
    """Encode the file's content."""
    lines = "".join(f"{start.epoch}-{start.begin}\n" for start in starts).encode()
    return f"{len(starts)}\n{crc32(lines) & _CRC_MASK}\n".encode() + lines


def decode_history(content: bytes) -> tuple[EpochStart, ...]:
    """Decode the file's content.

    Raises:
        ValueError: The content is no history, or damaged.
    """
    count, crc, lines = [*content.replace(b"\r\n", b"\n").split(b"\n", 2), b"", b""][:3]
    if not (count.isdigit() and crc.isdigit()):
        raise ValueError("is no history of epochs")
    if crc32(lines) & _CRC_MASK != int(crc):
        raise ValueError("differs from its checksum")
    starts = tuple(
        EpochStart(int(epoch), int(begin))
        for epoch, _, begin in (line.partition(b"-") for line in lines.splitlines())
    )
    ordered = all(
        one.epoch < other.epoch and one.begin <= other.begin for one, other in pairwise(starts)
    )
    if len(starts) != int(count) or not ordered:
        raise ValueError("has epochs out of order")
    return starts


def common_end(
    own: Sequence[EpochStart], own_end: int, other: Sequence[EpochStart], other_end: int
) -> int | None:
    """The commit-log offset up to which two logs have the same bytes.

    Args:
        own: Epochs of one log, oldest first.
        own_end: The end of that log.
        other: Epochs of the other.
        other_end: The end of the other.

    Returns:
        The offset; None when they have no epoch in common.
    """
    other_ends = dict(_with_ends(other, other_end))
    for start, end in reversed(_with_ends(own, own_end)):
        if start in other_ends:
            return min(end, other_ends[start])
    return None


def _with_ends(starts: Sequence[EpochStart], log_end: int) -> list[tuple[EpochStart, int]]:
    ends = [*(start.begin for start in starts[1:]), log_end]
    return list(zip(starts, ends, strict=False))
