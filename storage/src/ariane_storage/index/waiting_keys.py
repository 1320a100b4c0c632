"""Keys of appended records that wait in memory until they are filed in the index.

Keys stay here until they are filed: a query that searches first here and then in the index files
misses none, and waits neither for the disk nor for the filing thread.
"""

from __future__ import annotations

import threading
from array import array
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s

_BLOCKS_LOOKED_THROUGH_MAX: Final = 16
_FEW_MAX: Final = 4096
"""Keys of single messages that are kept as plain numbers before they become a block."""


# Not changed once made; not frozen, because that takes more than twice as long to make.
@dataclass(slots=True, eq=False)
class Keys:
    """Keys in the order of the log."""

    hashes: NDArray[np.int32]
    """The hash of each, not negative."""
    commit_log_offsets: Int64s
    """Commit-log offset of each key's record, ascending."""
    timestamps: Int64s
    """Store timestamp of each, in milliseconds."""

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, begin: int, end: int) -> Self:
        """Some of them, side by side."""
        return type(self)(
            self.hashes[begin:end],
            self.commit_log_offsets[begin:end],
            self.timestamps[begin:end],
        )

    @classmethod
    def joined(cls, blocks: list[Self]) -> Self:
        """All keys of some blocks, of one at least."""
        if len(blocks) == 1:
            return blocks[0]
        return cls(
            np.concatenate([block.hashes for block in blocks]),
            np.concatenate([block.commit_log_offsets for block in blocks]),
            np.concatenate([block.timestamps for block in blocks]),
        )


class WaitingKeys:
    """A queue of keys: added at its end, filed from its front. Any thread."""

    def __init__(self) -> None:
        # Never held while waiting for the disk: appends wait for this work at most.
        self._lock = threading.Lock()
        self._blocks: list[Keys] = []
        # The newest keys, of single messages: numbers side by side, for no array of one is worth
        # its making.
        self._few = array("i"), array("q"), array("q")
        self.count = 0
        """Number of waiting keys."""

    def add(self, keys: Keys) -> None:
        """Take keys of records behind all others; never fails."""
        if len(keys):
            with self._lock:
                self._settle_few()
                self._blocks.append(keys)
                self.count += len(keys)

    def add_few(self, hashes: list[int], commit_log_offsets: list[int], timestamp: int) -> None:
        """Take few keys of records of one timestamp behind all others; never fails."""
        with self._lock:
            of_hashes, of_offsets, of_timestamps = self._few
            of_hashes.extend(hashes)
            of_offsets.extend(commit_log_offsets)
            of_timestamps.extend([timestamp] * len(hashes))
            self.count += len(hashes)
            if len(of_hashes) >= _FEW_MAX:
                self._settle_few()

    def _settle_few(self) -> None:
        """Make a block of the newest keys; with the lock held."""
        hashes, offsets, timestamps = self._few
        if hashes:
            self._few = array("i"), array("q"), array("q")
            self._blocks.append(
                Keys(
                    np.frombuffer(hashes, np.int32),
                    np.frombuffer(offsets, np.int64),
                    np.frombuffer(timestamps, np.int64),
                )
            )

    def oldest(self, count: int) -> Keys | None:
        """The oldest keys, up to a number, which keep waiting; None if there are none."""
        with self._lock:
            self._settle_few()
            taken, total = [], 0
            for block in self._blocks:
                if total >= count:
                    break
                taken.append(block)
                total += len(block)
        return Keys.joined(taken).part(0, count) if taken else None

    def drop(self, count: int) -> None:
        """Drop the oldest keys, which are filed now."""
        with self._lock:
            self._settle_few()
            self.count -= count
            place = 0
            while count and count >= len(self._blocks[place]):
                count -= len(self._blocks[place])
                place += 1
            del self._blocks[:place]
            if count:
                self._blocks[0] = self._blocks[0].part(count, len(self._blocks[0]))

    def find(self, key_hash: int, *, begin_ms: int, end_ms: int) -> list[int]:
        """Commit-log offsets of a hash in a range of time, newest first."""
        with self._lock:
            self._settle_few()
            if len(self._blocks) > _BLOCKS_LOOKED_THROUGH_MAX:
                # Joined once for all later queries: single messages make blocks of their own.
                self._blocks = [Keys.joined(self._blocks)]
            blocks = self._blocks[::-1]
        found: list[int] = []
        for block in blocks:
            places = np.flatnonzero(block.hashes == key_hash)[::-1]
            if len(places):
                stamps = block.timestamps[places]
                places = places[(stamps >= begin_ms) & (stamps <= end_ms)]
                found += block.commit_log_offsets[places].tolist()
        return found

    def keep_below(self, commit_log_end: int) -> None:
        """Forget keys of records at or above a commit-log offset."""
        with self._lock:
            self._settle_few()
            if self._blocks:
                keys = Keys.joined(self._blocks)
                kept = int(np.searchsorted(keys.commit_log_offsets, commit_log_end))
                self._blocks = [keys.part(0, kept)] if kept else []
                self.count = kept

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._settle_few()
            self._blocks = []
            self.count = 0
