"""What a group has not settled of one queue, and how much of that its members have in hand.

::

    queue offsets    0 ... 41 | 42  43  44  45  46  47  48 | 49 ...
                      settled |  x       x           x     |  nobody has looked at these
                       floor -^                            ^- end

    row      offset  until_ms  serial  attempts  holder
             42      1700...   7       1         0          in hand: of receipt 7, until then
             44      1600...   5       2         0          its time is over: comes again
             47      1800...   0       3         0          failed: comes again then

Offsets between that have no row are settled. So settling a message that is far ahead of the oldest
costs nothing, and what is kept grows with what is in hand, and not with how far apart it lies.

Where messages are not handed out in the order of their offsets, there are rows of messages, too,
that were looked at and never handed out; they have no attempts.

Rows lie in a buffer with room behind them, and settling moves the shorter side over what is gone::

    buffer   | free | 42 44 47 48 | free |          44 is done:   | free    | 42 47 48 | free |
"""

from __future__ import annotations

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
"""One message: its queue offset; until when it is invisible; the serial of the receipt that settles
it, 0 for none; how often it was handed out; who has the broker keep it invisible, 0 for nobody;
what it stays in order with; its priority."""

KEY_UNKNOWN: Final = 0
"""Nobody has looked at the message."""
KEY_NONE: Final = -1
"""The message belongs to no message group."""

OFFSET_MAX: Final = int(np.iinfo(np.int64).max)
"""Behind every queue offset, and every time."""

UNSETTLED_MAX: Final = 1 << 17
"""As many messages of a queue may be in hand or wait to come again; a group that has more gets no
new ones of it until some are settled."""

Rows = NDArray[np.void]

_NO_ROWS: Final = np.empty(0, ROW)
_SPARE: Final = 16
"""A buffer that is so many times larger than what is in it is given up."""


class QueueWindow:
    """One group in one queue.

    Attributes:
        end: The first queue offset that nobody has looked at.
        reset_epoch: How often the group's offset had been set anew when this began.
    """

    __slots__ = ("_begin", "_buffer", "_due_ms", "_stop", "end", "reset_epoch")

    def __init__(self, end: int, reset_epoch: int = 0, rows: Rows | None = None) -> None:
        self.end = end
        self.reset_epoch = reset_epoch
        self._buffer: Rows = _NO_ROWS if rows is None else rows
        self._begin, self._stop = 0, len(self._buffer)
        self._due_ms: int | None = None

    @property
    def rows(self) -> Rows:
        """What is not settled and not beyond ``end``, by offset; good until the window changes."""
        return self._buffer[self._begin : self._stop]

    def __len__(self) -> int:
        return self._stop - self._begin

    @property
    def floor(self) -> int:
        """Everything before it is settled: the group's consumer offset."""
        return int(self.rows["offset"][0]) if len(self.rows) else self.end

    @property
    def offsets(self) -> Int64s:
        """Of all rows, ascending."""
        return np.ascontiguousarray(self.rows["offset"])

    @property
    def due_ms(self) -> int:
        """When the next row becomes visible, if it is not yet; a time far away without any."""
        if self._due_ms is None:
            self._due_ms = int(self.rows["until_ms"].min()) if len(self.rows) else OFFSET_MAX
        return self._due_ms

    def visible(self, now_ms: int) -> NDArray[np.int64]:
        """Which rows anybody may have now."""
        if now_ms < self.due_ms:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.rows["until_ms"] <= now_ms)

    def find(self, serial: int, ranges: Ranges | None) -> Int64s:
        """The offsets that a receipt still settles.

        Args:
            serial: Of the receipt.
            ranges: Which of them; None for all.
        """
        offsets: Int64s = self.rows["offset"]
        serials: Int64s = self.rows["serial"]
        if ranges is not None:
            within: slice | NDArray[np.int64]
            if len(ranges) == 1:
                ends = (ranges[0, 0], ranges[0].sum())
                within = slice(*np.searchsorted(offsets, ends).tolist())
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
        """Messages were handed out.

        Args:
            offsets: Which; ascending.
            serial: Of their receipt; larger than any before.
            until_ms: Until when they are invisible.
            attempts: How often each was handed out by now: one for each, or one for all.
            end: The first queue offset that nobody has looked at.
            passed: Whether what was looked at and not handed out is settled, because a filter has
                left it out; else it waits.
        """
        self.look(offsets if passed else np.arange(self.end, end, dtype=np.int64), end)
        rows, at = self.rows, self._places(offsets)
        rows["until_ms"][at] = until_ms
        rows["serial"][at] = serial
        rows["attempts"][at] = attempts
        rows["holder"][at] = 0
        self._due_ms = None

    def look(self, offsets: Int64s, end: int) -> None:
        """Messages were looked at, and wait.

        Args:
            offsets: Which; ascending. Those below ``end`` as it was are known.
            end: The first queue offset that nobody has looked at now; never less than before.
        """
        fresh = offsets[np.searchsorted(offsets, self.end) :]
        self.end = max(self.end, end)
        if len(fresh):
            self._make_room(len(fresh))
            rows = self._buffer[self._stop : self._stop + len(fresh)]
            rows.view(np.uint8).fill(0)
            rows["offset"] = fresh
            self._stop += len(fresh)
            self._due_ms = None

    def settle(self, offsets: Int64s) -> None:
        """Messages are done with; ascending."""
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
        """Change until when messages are invisible; ascending.

        Args:
            offsets: Which.
            until_ms: Until when.
            given_back: Whether their receipt is used up.
            holder: Who has the broker keep them invisible from now on; 0 for nobody.
        """
        rows, at = self.rows, self._places(offsets)
        rows["until_ms"][at] = until_ms
        if given_back:
            rows["serial"][at] = 0
        rows["holder"][at] = holder
        self._due_ms = None

    def shift(self, span_ms: int) -> None:
        """Move until when all messages are invisible."""
        self.rows["until_ms"] += span_ms
        self._due_ms = None

    def raise_floor(self, offset: int) -> None:
        """Settle everything before an offset."""
        if offset > self.floor:
            self._cut(0, int(np.searchsorted(self.rows["offset"], offset)))
            self.end = max(self.end, offset)
            self._due_ms = None

    def lower_end(self, end: int) -> None:
        """Note that the queue ends at an offset: nobody has looked at anything behind it."""
        if end < self.end:
            self._cut(int(np.searchsorted(self.rows["offset"], end)), len(self))
            self.end, self._due_ms = end, None

    def gap(self, offset: int, now_ms: int) -> tuple[int, int]:
        """What an owner of the queue may read from an offset on.

        Whoever goes back to what is settled wants it again.

        Returns:
            Where the next message is, and up to where (exclusive) nothing is settled or in hand;
            the same twice where a member has that message in hand now.
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
        """Where the rows of some ascending offsets are: at once where these follow one another."""
        rows = self.rows
        count = len(offsets)
        if count and offsets[-1] - offsets[0] == count - 1:
            known = rows["offset"]
            first = int(np.searchsorted(known, offsets[0]))
            last = first + count - 1
            if last < len(known) and known[first] == offsets[0] and known[last] == offsets[-1]:
                return slice(first, last + 1)
        return rows_of(rows, offsets)

    def _cut(self, first: int, behind: int) -> None:
        """Take rows out."""
        rows, count = self.rows, behind - first
        if first <= len(rows) - behind:
            rows[count:behind] = rows[:first]
            self._begin += count
        else:
            rows[first : len(rows) - count] = rows[behind:]
            self._stop -= count
        if len(self) * _SPARE < len(self._buffer):
            self._take(self.rows.copy())

    def _make_room(self, count: int) -> None:
        """Have room for so many behind the rows."""
        if self._stop + count > len(self._buffer):
            rows = self.rows
            buffer = np.empty(2 * (len(rows) + count), ROW)
            buffer[: len(rows)] = rows
            self._buffer, self._begin, self._stop = buffer, 0, len(rows)

    def _take(self, rows: Rows) -> None:
        self._buffer, self._begin, self._stop = rows, 0, len(rows)


def rows_of(rows: Rows, offsets: Int64s) -> NDArray[np.int64]:
    """Where the rows of some offsets are; those that have none are left out."""
    known = rows["offset"]
    at = np.searchsorted(known, offsets)
    at = at[at < len(known)]
    found: NDArray[np.int64] = at[known[at] == offsets[: len(at)]].astype(np.int64)
    return found
