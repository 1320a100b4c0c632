"""Damaged ranges of the commit log that are known, and kept rather than cut off.

::

    quarantine.json    {"ranges": [{"begin": 4096, "end": 5256, "reason": "checksum differs"}],
                        "mended": false}

Readers skip the messages in them, and everything around them is served. Operators see them in
reports; ``ariane store fsck`` finds them again from the log alone. ``mended`` says that a range was
filled from another copy of the log: what was derived from the log without it must be rebuilt.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.state_file import StateFile


class Quarantine:
    """The damaged ranges of one store, in order, none touching another. Any thread."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(path, disk)
        # Replaced and never changed: readers use it while another thread adds.
        self._ranges: tuple[Damage, ...] = ()
        self._changing = threading.RLock()
        self._changed = False
        self.is_mended = False
        """Whether a range was mended since the store was opened last."""

    @property
    def ranges(self) -> tuple[Damage, ...]:
        """All damaged ranges, oldest first."""
        return self._ranges

    def load(self) -> bool:
        """Load the ranges found before; returns whether the file could be read.

        If not, scans find the damage again.
        """
        try:
            state = self._file.load() or {}
            for entry in state.get("ranges", []):
                reason = DamageReason(entry["reason"])
                self.add(Damage(int(entry["begin"]), int(entry["end"]), reason))
            self.is_mended = bool(state.get("mended", False))
            self._changed = False
        except (StateFileDamaged, ValueError, KeyError, TypeError, AttributeError):
            self._changed = True
            return False
        return True

    def covers(self, commit_log_offset: int) -> bool:
        """Whether a byte of the log is in a damaged range."""
        ranges = self._ranges
        place = bisect_right(ranges, commit_log_offset, key=_begin_of) - 1
        return place >= 0 and commit_log_offset < ranges[place].end

    def holds(self, begin: int, end: int) -> bool:
        """Whether all bytes of a range of the log are in damaged ranges."""
        for damage in self._ranges:
            if damage.begin <= begin < damage.end:
                begin = damage.end
        return begin >= end

    def add(self, damage: Damage) -> None:
        """Add a range; it survives a restart once ``save`` was called."""
        with self._changing:
            begin, end, reason = damage.begin, damage.end, damage.reason
            apart = []
            for other in self._ranges:
                if other.end <= begin or other.begin >= end:
                    apart.append(other)
                    continue
                if other.begin <= begin:
                    reason = other.reason
                begin, end = min(begin, other.begin), max(end, other.end)
            self._replace([*apart, Damage(begin, end, reason)])

    def lift(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Drop ranges that were mended, given by begin and end."""
        with self._changing:
            mended = set(ranges)
            self._replace([one for one in self._ranges if (one.begin, one.end) not in mended])
            self.is_mended = self._changed = True

    def is_rebuilt(self) -> None:
        """Note that what is derived from the log has the mended ranges, too."""
        self._changed |= self.is_mended
        self.is_mended = False

    def keep_above(self, commit_log_begin: int) -> None:
        """Drop ranges that are gone from the log."""
        with self._changing:
            self._replace([damage for damage in self._ranges if damage.end > commit_log_begin])

    def keep_below(self, commit_log_end: int) -> None:
        """Drop ranges that were cut off with the end of the log."""
        with self._changing:
            self._replace([damage for damage in self._ranges if damage.begin < commit_log_end])

    def _replace(self, ranges: list[Damage]) -> None:
        ordered = tuple(sorted(ranges, key=_begin_of))
        if ordered != self._ranges:
            self._ranges = ordered
            self._changed = True

    def save(self) -> None:
        """Write the ranges down if they have changed.

        Raises:
            OSError: The disk failed.
        """
        if not self._changed:
            return
        # Before the write: a range that a read adds meanwhile is saved next time.
        self._changed = False
        ranges = [
            {"begin": damage.begin, "end": damage.end, "reason": damage.reason.value}
            for damage in self._ranges
        ]
        try:
            self._file.save({"ranges": ranges, "mended": self.is_mended})
        except OSError:
            self._changed = True
            raise


def _begin_of(damage: Damage) -> int:
    return damage.begin
