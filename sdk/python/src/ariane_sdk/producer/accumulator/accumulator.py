r"""The accumulator of a broker: the rows that wait to be sent there, in their order.

Rows go on growing while they wait. A sender pulls from here what its next call carries; the
accumulator knows neither the sender nor what became of rows that were taken::

    line    [ orders#0 ][ orders#3 ][ bills#1 ] ...       the oldest first
              \_____________________/
                 what a call takes: at most one row of a queue whose rows stay in order

``OpenRows`` finds the row that a message joins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeVar

from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.checks.demand import Demand
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import ChooseQueue, Row
from ariane_sdk.producer.accumulator.topic_info import (
    MOVABLE,
    PINNED,
    RowKey,
    SendOptions,
    TopicInfo,
)
from ariane_sdk.settings import ProducerSettings

Part = TypeVar("Part")

EVERYTHING: Final = 1 << 62
"""More messages than ever wait."""

ROWS_PER_CALL_MAX: Final = 4096
"""Brokers accept no more rows in one call."""


SHARE_MAX: Final = 512
"""The most messages for any queue that a queue gets in its turn."""


class Waiting(NamedTuple):
    """What could be sent now."""

    message_count: int
    """Number of messages."""
    row_count: int
    """Number of rows."""
    size_bytes: int
    """Bytes on the wire."""


class Accumulator(deque[Row]):
    """The rows that wait for one broker, the oldest first."""

    def __init__(self, on_row: Callable[[], None], *, request_bytes_max: int) -> None:
        """Start empty.

        Args:
            on_row: Called whenever rows may be taken that could not before.
            request_bytes_max: The most bytes of rows in a call; a larger row goes alone.
        """
        super().__init__()
        self._on_row = on_row
        self._request_bytes_max = request_bytes_max
        self.in_flight_count = 0
        """How many messages are under way to the broker; the sender keeps count."""

    def add(self, row: Row) -> None:
        """Add a new row behind all others; it may grow until it is taken."""
        self.append(row)
        self._on_row()

    def add_again(self, rows: Sequence[Row]) -> None:
        """Add rows that are sent once more, before all newer ones.

        Movable rows are added behind pinned ones. In front of a row that is repeated under its
        sequence numbers, a movable one would take the next numbers of the queue, and the broker
        would refuse both.
        """
        staying = [row for row in rows if not row.movable]
        while self and not self[0].movable:
            staying.append(self.popleft())
        self.extendleft(reversed([row for row in rows if row.movable]))
        self.extendleft(reversed(staying))
        self._on_row()

    def give_up_movable(self) -> list[Row]:
        """Take away the rows that can go to another broker."""
        movable = [row for row in self if row.movable]
        self._keep([row for row in self if not row.movable])
        return movable

    def take_out(self, rows: Collection[Row]) -> None:
        """Remove rows that wait here."""
        self._keep([row for row in self if row not in rows])
        self._on_row()  # Other rows may have waited behind them.

    def _keep(self, rows: Sequence[Row]) -> None:
        self.clear()
        self.extend(rows)

    def waiting(self, held_queues: AbstractSet[MessageQueue]) -> Waiting:
        """Count what could be sent now, beside calls that hold these queues."""
        size_bytes = count = row_count = 0
        for row in self:
            if not (row.queue in held_queues and row.in_order):
                size_bytes += row.wire_bytes
                count += row.count
                row_count += 1
        return Waiting(count, row_count, size_bytes)

    def take(
        self, count_max: int, held_queues: AbstractSet[MessageQueue], now_s: float
    ) -> tuple[list[Row], int, set[MessageQueue], float]:
        """Take the oldest rows; of an ordered queue at most one is in flight.

        Args:
            count_max: How many messages make a call full: the row that reaches that is its last.
            held_queues: The ordered queues of calls in flight.
            now_s: The monotonic time.

        Returns:
            The rows, which take no more messages; how many messages they have; queues to which no
            other call may send meanwhile; and the monotonic time at which another row may be sent,
            infinite without one.
        """
        taken: list[Row] = []
        passed: list[Row] = []
        queues: set[MessageQueue] = set()
        passed_queues: set[MessageQueue] = set()
        size_bytes = count = 0
        next_s = float("inf")
        while self:
            row = self.popleft()
            if row.settled:  # All its messages were withdrawn.
                continue
            queue, early = row.queue, row.not_before_s > now_s
            if early or (
                row.in_order and (queue in held_queues or queue in queues or queue in passed_queues)
            ):
                if early:
                    next_s = min(next_s, row.not_before_s)
                passed.append(row)
                # A pinned row keeps its place in its queue's order.
                if row.in_order and not row.movable:
                    passed_queues.add(queue)
            elif (
                count >= count_max
                or len(taken) == ROWS_PER_CALL_MAX
                or (taken and size_bytes + row.wire_bytes > self._request_bytes_max)
            ):
                self.appendleft(row)
                break
            else:
                row.open = False
                taken.append(row)
                size_bytes += row.wire_bytes
                count += row.count
                if row.in_order:
                    queues.add(queue)
        self.extendleft(reversed(passed))
        return taken, count, queues, next_s


class ByBroker(dict[str, Part]):
    """A part for each broker, by its name; made on first use."""

    def __init__(self, new_part: Callable[[str], Part]) -> None:
        super().__init__()
        self._new_part = new_part

    def __missing__(self, broker_name: str) -> Part:
        """Make the part of a broker that had no rows yet."""
        part = self[broker_name] = self._new_part(broker_name)
        return part


class OpenRows:
    """The rows of all topics that take messages: finds the row for a message, or opens one."""

    def __init__(
        self,
        accumulators: ByBroker[Accumulator],
        on_open: Callable[[Row], None],
        is_welcome: Callable[[str], bool],
        settings: ProducerSettings,
    ) -> None:
        """Start without rows.

        Args:
            accumulators: Where new rows wait; they may grow until they are sent.
            on_open: Called with each new row before.
            is_welcome: Whether a row for a broker would be sent at once, with a good chance.
            settings: How large rows become, and how messages are spread.
        """
        self._accumulators = accumulators
        self._on_open = on_open
        self._is_welcome = is_welcome
        self._batch_bytes_max = settings.batch_bytes_max
        self._spread_count = settings.spread_count
        self._sequenced = settings.idempotent

    def _fits(self, row: Row, body_bytes: int) -> bool:
        """Whether an open row has room for one more body of this size."""
        return not row.messages or row.wire_bytes + body_bytes <= self._batch_bytes_max

    def for_any_queue(
        self, info: TopicInfo, body_bytes: int, kind: int = AT_ONCE, demand: Demand | None = None
    ) -> Row:
        """Return the row that takes a message for any queue.

        Queues take turns: each gets ``spread_count`` messages, then the next one; or as many as are
        under way, so that calls of many messages have few rows.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        is_usual = kind == AT_ONCE and demand is None
        row = info.row if is_usual else info.open_rows.get((None, kind, demand, MOVABLE))
        if (
            row is not None
            and row.open
            and len(row.messages) < row.count_max
            and self._fits(row, body_bytes)
        ):
            return row
        queue = info.next_queue(self._is_welcome)
        row = self._row_in_round(info, queue, body_bytes, kind, demand)
        if is_usual:
            info.row = row
        else:
            info.open_rows[None, kind, demand, MOVABLE] = row
        return row

    def _row_in_round(
        self,
        info: TopicInfo,
        queue: MessageQueue,
        body_bytes: int,
        kind: int,
        demand: Demand | None,
    ) -> Row:
        """The row in which a queue gets the next messages for any queue, in the round of queues."""
        key: RowKey = (queue, kind, demand, MOVABLE)
        row = info.open_rows.get(key)
        if row is None or not row.open or row.queue != queue or not self._fits(row, body_bytes):
            row = self._open(info, queue, info.choose_queue, kind, demand)
            info.open_rows[key] = row
        if self._spread_count and info.queue_count > 1:
            in_flight_count = self._accumulators[queue.broker_name].in_flight_count
            share = max(self._spread_count, min(in_flight_count, SHARE_MAX))
            row.count_max = len(row.messages) + share
        return row

    def for_queue(
        self,
        info: TopicInfo,
        queue: MessageQueue,
        body_bytes: int,
        kind: int,
        options: SendOptions,
    ) -> Row:
        """Return the row that takes a message for this very queue.

        Messages that belong to the queue by their groups, and messages whose senders named the
        queue, do not share a row: only the former can move to another queue. Messages of different
        demands do not share one either. Of all these the queue has one open row, since a later
        message must not join a row before an earlier message's.
        """
        demand, grouped = options.demand, not options.names_queue
        key: RowKey = (queue, kind, None if kind == AT_ONCE else demand, PINNED)
        row = info.open_rows.get(key)
        if (
            row is None
            or not row.open
            or row.grouped != grouped
            or row.demand != demand
            or not self._fits(row, body_bytes)
        ):
            row = self._open(info, queue, None, kind, demand, grouped=grouped)
            info.open_rows[key] = row
        return row

    def half(self, info: TopicInfo, queue: MessageQueue | None, options: SendOptions) -> Row:
        """Return the row of a half message; nothing joins it: the end of each stands for itself.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        return self._open(
            info,
            queue or info.next_queue(self._is_welcome),
            info.choose_queue if queue is None else None,
            AT_ONCE,
            options.demand,
            grouped=queue is not None and not options.names_queue,
            half_of=options.half_of,
        )

    def whole(self, info: TopicInfo, queue: MessageQueue | None, kind: int) -> Row:
        """Return the row of messages that come encoded; nothing else joins it.

        Args:
            info: Their topic.
            queue: The queue that they must go to; ``None``: any queue will do.
            kind: Their kind of delay.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        if queue is not None:
            # Later messages for this queue must not join a row that is ahead of this one.
            info.open_rows.pop((queue, AT_ONCE, None, PINNED), None)
        choose_other = info.choose_queue if queue is None else None
        queue = queue or info.next_queue(self._is_welcome)
        return self._open(info, queue, choose_other, kind, None)

    def _open(
        self,
        info: TopicInfo,
        queue: MessageQueue,
        choose_other: ChooseQueue | None,
        kind: int,
        demand: Demand | None,
        *,
        grouped: bool = False,
        half_of: str = "",
    ) -> Row:
        row = Row(
            queue,
            info.properties,
            choose_other=choose_other,
            sequenced=self._sequenced and not half_of,
            grouped=grouped,
            kind=kind,
            demand=demand,
            half_of=half_of,
        )
        self._on_open(row)
        self._accumulators[queue.broker_name].add(row)
        return row
