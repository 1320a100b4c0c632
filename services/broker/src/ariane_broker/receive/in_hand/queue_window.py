"""The messages of one queue that a group has not settled, and which of them its members hold.

::

    queue offsets    0 ... 41 | 42  43  44  45  46  47  48 | 49 ...
                      settled |  x       x           x     |  not looked at yet
                       floor -^                            ^- end

    row      offset  until_ms  serial  attempts  holder
             42      1700...   7       1         0          held by receipt 7 until that time
             44      1600...   5       2         0          invisible time over: next attempt
             47      1800...   0       3         0          failed: next attempt at that time

Offsets between them that have no row are settled. So settling a message far ahead of the oldest
costs nothing, and memory grows with the number of unsettled messages, not with their distance.

Where messages are not handed out in the order of their offsets, there are also rows of messages
that were looked at and not handed out; their attempts are 0.

Rows lie in a buffer with room behind them. Settling moves the shorter side over the removed rows::

    buffer   | free | 42 44 47 48 | free |          44 is done:   | free    | 42 47 48 | free |
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.receive.in_hand.ranges import Ranges, rows_within
from ariane_storage.log.records.fields import Int64s

ROW: Final = np.dtype(
    [
        ("offset", "<i8"),
        ("until_ms", "<i8"),
        ("serial", "<i8"),
        ("attempts", "<i4"),
        ("holder", "<i4"),
        ("order_key", "<i8"),
        ("priority", "<i8"),
    ]
)
"""One message: its queue offset; end of its invisible time; serial of the receipt that settles it,
0 for none; its attempts; number of the client for which the broker renews the invisible time, 0
for none, ``TIMED`` for none ever; its message group, as a hash; its priority."""

TIMED: Final = -1
"""Since it was handed out, somebody has said when the message is to be visible."""

KEY_UNKNOWN: Final = 0
"""The message was not read yet."""
KEY_NONE: Final = -1
"""The message belongs to no message group."""

OFFSET_MAX: Final = int(np.iinfo(np.int64).max)
"""Larger than every queue offset and every time."""

UNSETTLED_MAX: Final = 1 << 17
"""The most unsettled messages of a group in a queue; at this number it gets no new ones of the
queue until some are settled."""

Rows = NDArray[np.void]

_NO_ROWS: Final = np.empty(0, ROW)
_NO_OFFSETS: Final = np.empty(0, np.int64)
_SPARE: Final = 16
"""A buffer that is this many times larger than its rows is replaced."""
_SMALL: Final = 8
"""Rows of a buffer that stays, however few of them are in use: messages that are received and
settled one by one need no other."""


class QueueWindow:
    """The unsettled messages of one group in one queue."""

    __slots__ = ("_begin", "_buffer", "_due_ms", "end", "lost_offsets", "reset_epoch", "rows")

    def __init__(self, end: int, reset_epoch: int = 0, rows: Rows | None = None) -> None:
        self.end = end
        """The first queue offset that was not looked at."""
        self.reset_epoch = reset_epoch
        """How often the group's offset had been reset when the window began."""
        self.lost_offsets: Int64s = _NO_OFFSETS
        """Messages that were found to be damaged, and of which no member knows yet; ascending, and
        in memory only."""
        self._buffer: Rows = _NO_ROWS if rows is None else rows
        self._begin = 0
        self.rows: Rows = self._buffer
        """The unsettled messages below ``end``, by offset; valid until the window changes."""
        self._due_ms: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def floor(self) -> int:
        """The group's consumer offset: all messages before it are settled."""
        return int(self.rows["offset"][0]) if len(self.rows) else self.end

    @property
    def offsets(self) -> Int64s:
        """The offsets of all rows, ascending."""
        return np.ascontiguousarray(self.rows["offset"])

    @property
    def due_ms(self) -> int:
        """The earliest end of an invisible time; ``OFFSET_MAX`` without rows."""
        if self._due_ms is None:
            self._due_ms = int(self.rows["until_ms"].min()) if len(self.rows) else OFFSET_MAX
        return self._due_ms

    def note_lost(self, offsets: Int64s) -> None:
        """Note damaged messages for the next member that gets messages of the queue."""
        if len(offsets):
            self.lost_offsets = np.union1d(self.lost_offsets, offsets)

    def take_lost(self) -> Int64s:
        """The damaged messages to tell a member of; they are forgotten here."""
        lost, self.lost_offsets = self.lost_offsets, _NO_OFFSETS
        return lost

    def visible(self, now_ms: int) -> NDArray[np.int64]:
        """The rows that are visible now."""
        if now_ms < self.due_ms:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.rows["until_ms"] <= now_ms)

    def find(self, serial: int, ranges: Ranges | None) -> Int64s:
        """The offsets that a receipt still settles.

        Args:
            serial: The receipt's serial.
            ranges: The offsets to look for; None for all.
        """
        offsets: Int64s = self.rows["offset"]
        serials: Int64s = self.rows["serial"]
        if ranges is not None:
            within: slice | NDArray[np.int64]
            if len(ranges) == 1:
                first, count = ranges[0].tolist()
                within = slice(*offsets.searchsorted((first, first + count)).tolist())
            else:
                within = rows_within(offsets, ranges)
            offsets, serials = offsets[within], serials[within]
        found: Int64s = offsets[serials == serial]
        return found

    def hand(
        self,
        offsets: Int64s,
        serial: int,
        until_ms: int,
        *,
        attempts: NDArray[np.int32],
        end: int,
        passed: bool,
    ) -> None:
        """Apply that messages were handed out.

        Args:
            offsets: Their offsets, ascending.
            serial: Their receipt's serial; larger than any before.
            until_ms: End of their invisible time.
            attempts: Their attempts: one number for each, or one for all.
            end: The first queue offset that was not looked at.
            passed: Whether messages that were looked at and not handed out are settled, because a
                filter left them out; else they wait.
        """
        count = self.look(offsets if passed else np.arange(self.end, end, dtype=np.int64), end)
        rows, are_last = self.rows, passed and count == len(offsets)
        at = slice(len(rows) - count, len(rows)) if are_last else self._places(offsets)
        rows["until_ms"][at] = until_ms
        rows["serial"][at] = serial
        rows["attempts"][at] = attempts
        rows["holder"][at] = 0
        self._due_ms = None

    def look(self, offsets: Int64s, end: int) -> int:
        """Add messages that were looked at, and wait.

        Args:
            offsets: Their offsets, ascending; those below the old ``end`` have rows already.
            end: The first queue offset that was not looked at; never less than before.

        Returns:
            The number of new rows, which are the last ones.
        """
        fresh = offsets[offsets.searchsorted(self.end) :]
        count = len(fresh)
        self.end = max(self.end, end)
        if count:
            stop = self._begin + len(self.rows)
            if stop + count > len(self._buffer):
                stop = self._make_room(count)
            self.rows = self._buffer[self._begin : stop + count]
            rows = self._buffer[stop : stop + count]
            rows.view(np.uint8).fill(0)  # A copy of one row of zeros takes 27 ns for each.
            rows["offset"] = fresh
            self._due_ms = None
        return count

    def settle(self, offsets: Int64s) -> None:
        """Remove settled messages; ascending offsets."""
        at = self._places(offsets)
        if isinstance(at, slice):
            self._cut(at.start, at.stop)
        elif len(at):
            kept = np.ones(len(self), np.bool_)
            kept[at] = False
            self._take(self.rows[kept])
        self._due_ms = None

    def hide(
        self, offsets: Int64s, until_ms: int, *, given_back: bool = False, holder: int = 0
    ) -> None:
        """Change the invisible time of messages.

        Args:
            offsets: Their offsets, ascending.
            until_ms: End of the invisible time.
            given_back: Whether their receipt is used up.
            holder: The client for which the broker renews the time from now on; 0 for none.
        """
        rows, at = self.rows, self._places(offsets)
        rows["until_ms"][at] = until_ms
        if given_back:
            rows["serial"][at] = 0
        rows["holder"][at] = holder or TIMED
        self._due_ms = None

    def shift(self, span_ms: int) -> None:
        """Move the end of all invisible times."""
        self.rows["until_ms"] += span_ms
        self._due_ms = None

    def raise_floor(self, offset: int) -> None:
        """Settle everything before an offset."""
        if offset > self.floor:
            self._cut(0, int(np.searchsorted(self.rows["offset"], offset)))
            self.end = max(self.end, offset)
            self._due_ms = None

    def lower_end(self, end: int) -> None:
        """Forget all messages behind an offset, where the queue ends."""
        if end < self.end:
            self._cut(int(np.searchsorted(self.rows["offset"], end)), len(self))
            self.end, self._due_ms = end, None

    def gap(self, offset: int, now_ms: int) -> tuple[int, int]:
        """The range that an owner of the queue may read from an offset on.

        An owner that goes back to settled messages reads them again.

        Returns:
            The offset of the next message, and the end (exclusive) of the range in which no message
            is settled or held; the same twice if a member holds that message now.
        """
        if not len(self.rows):
            return offset, OFFSET_MAX
        if offset < self.floor:
            return offset, self.floor
        known = self.rows["offset"]
        at = int(np.searchsorted(known, offset))
        if at == len(known):
            return max(offset, self.end), OFFSET_MAX
        begin = int(known[at])
        free = self.rows["until_ms"][at:] <= now_ms
        follows = known[at:] == np.arange(begin, begin + len(known) - at)
        stops = np.flatnonzero(~(free & follows))
        end = begin + (int(stops[0]) if len(stops) else len(known) - at)
        return begin, OFFSET_MAX if end == self.end else end

    # The buffer.

    def _places(self, offsets: Int64s) -> slice | NDArray[np.int64]:
        """The positions of the rows of ascending offsets: a slice for consecutive offsets."""
        rows = self.rows
        count = len(offsets)
        if count and offsets[-1] - offsets[0] == count - 1:
            known = rows["offset"]
            first = int(known.searchsorted(offsets[0]))
            last = first + count - 1
            if last < len(known) and known[first] == offsets[0] and known[last] == offsets[-1]:
                return slice(first, last + 1)
        return rows_of(rows, offsets)

    def _cut(self, first: int, behind: int) -> None:
        """Remove rows."""
        rows, count = self.rows, behind - first
        if first <= len(rows) - behind:
            rows[count:behind] = rows[:first]
            self._begin += count
            self.rows = rows[count:]
        else:
            rows[first : len(rows) - count] = rows[behind:]
            self.rows = rows[: len(rows) - count]
        if not len(self.rows):
            self._begin, self.rows = 0, self._buffer[:0]
        if len(self.rows) * _SPARE < len(self._buffer) and len(self._buffer) > _SMALL:
            self._take(self.rows.copy() if len(self.rows) else _NO_ROWS)

    def _make_room(self, count: int) -> int:
        """Make room for ``count`` rows behind the last; return where they begin in the buffer."""
        rows = self.rows
        self._buffer, self._begin = np.empty(2 * (len(rows) + count), ROW), 0
        self._buffer[: len(rows)] = rows
        return len(rows)

    def _take(self, rows: Rows) -> None:
        self._buffer, self._begin, self.rows = rows, 0, rows


def rows_of(rows: Rows, offsets: Int64s) -> NDArray[np.int64]:
    """The positions of the rows of offsets; offsets without a row are left out."""
    known = rows["offset"]
    at = np.searchsorted(known, offsets)
    at = at[at < len(known)]
    found: NDArray[np.int64] = at[known[at] == offsets[: len(at)]].astype(np.int64)
    return found


_fields: Final = attrgetter("end", "reset_epoch", "rows")


def copied_windows(windows: Iterable[QueueWindow]) -> list[tuple[int, int, bytes]]:
    """Copy ``end``, ``reset_epoch`` and the octets of the rows of each window: all in C."""
    columns = list(zip(*map(_fields, windows), strict=True))
    if not columns:
        return []
    ends, reset_epochs, rows = columns
    return list(zip(ends, reset_epochs, map(bytes, rows), strict=True))
