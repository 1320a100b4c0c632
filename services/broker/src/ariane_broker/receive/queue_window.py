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
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.receive.ranges import Ranges, rows_within
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


class QueueWindow:
    """One group in one queue.

    Attributes:
        rows: What is not settled and not beyond ``end``, by offset.
        end: The first queue offset that nobody has looked at.
        reset_epoch: How often the group's offset had been set anew when this began.
    """

    __slots__ = ("_due_ms", "end", "reset_epoch", "rows")

    def __init__(self, end: int, reset_epoch: int = 0, rows: Rows | None = None) -> None:
        self.end = end
        self.reset_epoch = reset_epoch
        self.rows: Rows = np.empty(0, ROW) if rows is None else rows
        self._due_ms: int | None = None

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
        rows = self.rows
        if ranges is not None:
            rows = rows[rows_within(rows["offset"], ranges)]
        return np.ascontiguousarray(rows["offset"][rows["serial"] == serial])

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
        at = np.searchsorted(self.rows["offset"], offsets)
        self.rows["until_ms"][at] = until_ms
        self.rows["serial"][at] = serial
        self.rows["attempts"][at] = attempts
        self.rows["holder"][at] = 0
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
            rows = np.zeros(len(fresh), ROW)
            rows["offset"] = fresh
            self.rows = np.concatenate((self.rows, rows)) if len(self.rows) else rows
            self._due_ms = None

    def settle(self, offsets: Int64s) -> None:
        """Messages are done with; ascending."""
        at = rows_of(self.rows, offsets)
        if not len(at):
            return
        first, last = int(at[0]), int(at[-1])
        if last - first == len(at) - 1:
            parts = (self.rows[:first], self.rows[last + 1 :])
            self.rows = np.concatenate(parts) if first else parts[1].copy()
        else:
            kept = np.ones(len(self.rows), np.bool_)
            kept[at] = False
            self.rows = self.rows[kept]
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
        at = rows_of(self.rows, offsets)
        self.rows["until_ms"][at] = until_ms
        if given_back:
            self.rows["serial"][at] = 0
        self.rows["holder"][at] = holder
        self._due_ms = None

    def raise_floor(self, offset: int) -> None:
        """Settle everything before an offset."""
        if offset > self.floor:
            self.rows = self.rows[np.searchsorted(self.rows["offset"], offset) :].copy()
            self.end = max(self.end, offset)
            self._due_ms = None

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


def rows_of(rows: Rows, offsets: Int64s) -> NDArray[np.int64]:
    """Where the rows of some offsets are; those that have none are left out."""
    known = rows["offset"]
    at = np.searchsorted(known, offsets)
    at = at[at < len(known)]
    found: NDArray[np.int64] = at[known[at] == offsets[: len(at)]].astype(np.int64)
    return found
