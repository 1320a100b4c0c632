r"""The accumulator of a broker: the rows that wait to be sent there, in their order.

Rows go on growing while they wait. A sender pulls from here what its next call carries; the
accumulator knows neither the sender nor what became of rows that were taken::

    line    [ orders#0 ][ orders#3 ][ bills#1 ] ...       the oldest first
              \_____________________/
                 what a call takes: at most one row of a queue whose rows stay in order
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import Row

EVERYTHING: Final = 1 << 62
"""More messages than ever wait."""

ROWS_PER_CALL_MAX: Final = 4096
"""Brokers accept no more rows in one call."""


class Waiting(NamedTuple):
    """What could be sent now.

    Attributes:
        message_count: Number of messages.
        row_count: Number of rows.
        size_bytes: Bytes on the wire.
    """

    message_count: int
    row_count: int
    size_bytes: int


class Taken(NamedTuple):
    """What a call carries.

    Attributes:
        rows: The rows; they take no more messages.
        cut: The last of them, if it was cut off from a row that still waits.
        next_s: The monotonic time at which another row may be sent; infinite without one.
    """

    rows: list[Row]
    cut: Row | None
    next_s: float


class Accumulator:
    """The rows that wait for one broker."""

    __slots__ = ("_line", "_on_row", "_request_bytes_max")

    def __init__(self, on_row: Callable[[], None], *, request_bytes_max: int) -> None:
        """Start empty.

        Args:
            on_row: Called whenever rows may be taken that could not before.
            request_bytes_max: The most bytes of rows in a call; a larger row goes alone.
        """
        self._line: deque[Row] = deque()
        self._on_row = on_row
        self._request_bytes_max = request_bytes_max

    def __bool__(self) -> bool:
        return bool(self._line)

    def add(self, row: Row) -> None:
        """Add a new row behind all others; it may grow until it is taken."""
        self._line.append(row)
        self._on_row()

    def add_again(self, rows: Sequence[Row]) -> None:
        """Add rows that are sent once more, before all newer ones.

        Movable rows are added behind pinned ones. In front of a row that is repeated under its
        sequence numbers, a movable one would take the next numbers of the queue, and the broker
        would refuse both.
        """
        line = self._line
        staying = [row for row in rows if not row.movable]
        while line and not line[0].movable:
            staying.append(line.popleft())
        line.extendleft(reversed([row for row in rows if row.movable]))
        line.extendleft(reversed(staying))
        self._on_row()

    def give_up_movable(self) -> list[Row]:
        """Take away the rows that can go to another broker."""
        movable = [row for row in self._line if row.movable]
        self._line = deque(row for row in self._line if not row.movable)
        return movable

    def take_out(self, rows: Collection[Row]) -> None:
        """Remove rows that wait here."""
        self._line = deque(row for row in self._line if row not in rows)
        self._on_row()  # Other rows may have waited behind them.

    def waiting(self, held_queues: AbstractSet[MessageQueue]) -> Waiting:
        """Count what could be sent now, beside calls that hold these queues."""
        size_bytes = count = row_count = 0
        for row in self._line:
            if not (row.queue in held_queues and row.in_order):
                size_bytes += row.wire_bytes
                count += row.count
                row_count += 1
        return Waiting(count, row_count, size_bytes)

    def take(self, count_max: int, held_queues: AbstractSet[MessageQueue], now_s: float) -> Taken:
        """Take the oldest rows; of an ordered queue at most one is in flight.

        Args:
            count_max: How many messages; a row that would exceed that is cut, if another queue of
                the broker can take the rest.
            held_queues: The ordered queues of calls in flight.
            now_s: The monotonic time.
        """
        line, held_queues = self._line, set(held_queues)
        taken: list[Row] = []
        passed: list[Row] = []
        size_bytes = count = 0
        next_s = float("inf")
        cut = None
        while line:
            row = line.popleft()
            if row.settled:  # All its messages were withdrawn.
                continue
            in_order = row.in_order
            early = row.not_before_s > now_s
            if early or (in_order and row.queue in held_queues):
                if early:
                    next_s = min(next_s, row.not_before_s)
                passed.append(row)
                # A pinned row keeps its place in its queue's order.
                in_order = in_order and not row.movable
            elif (
                count >= count_max
                or len(taken) == ROWS_PER_CALL_MAX
                or (taken and size_bytes + row.wire_bytes > self._request_bytes_max)
            ):
                line.appendleft(row)
                break
            else:
                if count + row.count > count_max:
                    cut = _first_part(row, count_max - count)
                    if cut is not None:
                        line.appendleft(row)
                        row = cut
                row.open = False
                taken.append(row)
                size_bytes += row.wire_bytes
                count += row.count
            if in_order:
                held_queues.add(row.queue)
        line.extendleft(reversed(passed))
        return Taken(taken, cut, next_s)


class Accumulators(dict[str, Accumulator]):
    """The accumulator of each broker, by its name; made on first use."""

    def __init__(self, new_accumulator: Callable[[str], Accumulator]) -> None:
        super().__init__()
        self._new_accumulator = new_accumulator

    def __missing__(self, broker_name: str) -> Accumulator:
        """Make the accumulator of a broker that had no rows yet."""
        accumulator = self[broker_name] = self._new_accumulator(broker_name)
        return accumulator


def _first_part(row: Row, count: int) -> Row | None:
    """The first messages of a row, cut off; None if it stays whole."""
    if not row.movable or not row.open:
        return None
    queue = row.other_queue()
    return None if queue is None else row.split(count, queue)
