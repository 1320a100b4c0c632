"""The open rows of all topics: which one takes the next message for a queue, or for any queue."""

from __future__ import annotations

from collections.abc import Callable

from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.checks.demand import Demand
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.accumulator import Accumulators
from ariane_sdk.producer.accumulator.row import ChooseQueue, Row
from ariane_sdk.producer.accumulator.topic_lane import (
    MOVABLE,
    PINNED,
    RowKey,
    SendOptions,
    TopicLane,
)
from ariane_sdk.settings import ProducerSettings


class OpenRows:
    """Finds open rows, and opens new ones."""

    __slots__ = (
        "_accumulators",
        "_batch_bytes_max",
        "_is_welcome",
        "_on_open",
        "_sequenced",
        "_spread_count",
    )

    def __init__(
        self,
        accumulators: Accumulators,
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

    def fits(self, row: Row, body_bytes: int) -> bool:
        """Whether a row has room for one more body of this size."""
        return row.open and (
            not row.messages or row.wire_bytes + body_bytes <= self._batch_bytes_max
        )

    def for_any_queue(
        self, lane: TopicLane, body_bytes: int, kind: int = AT_ONCE, demand: Demand | None = None
    ) -> Row:
        """Return the row that takes a message for any queue.

        Queues take turns: each gets ``spread_count`` messages, then the next one.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        is_usual = kind == AT_ONCE and demand is None
        row = lane.row if is_usual else lane.open_rows.get((None, kind, demand, MOVABLE))
        if row is not None and len(row.messages) < row.count_max and self.fits(row, body_bytes):
            return row
        queue = lane.next_queue(self._is_welcome)
        row = self._share(lane, queue, body_bytes, kind, demand)
        if is_usual:
            lane.row = row
        else:
            lane.open_rows[None, kind, demand, MOVABLE] = row
        return row

    def _share(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body_bytes: int,
        kind: int,
        demand: Demand | None,
    ) -> Row:
        """The row in which a queue gets its next share of the messages for any queue."""
        if not self._spread_count:
            return self._open(lane, queue, lane.choose_queue, kind, demand)
        key: RowKey = (queue, kind, demand, MOVABLE)
        row = lane.open_rows.get(key)
        if row is None or row.queue != queue or not self.fits(row, body_bytes):
            row = self._open(lane, queue, lane.choose_queue, kind, demand)
            lane.open_rows[key] = row
        if lane.queue_count > 1:
            row.count_max = len(row.messages) + self._spread_count
        return row

    def for_queue(
        self,
        lane: TopicLane,
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
        row = lane.open_rows.get(key)
        if (
            row is None
            or row.grouped != grouped
            or row.demand != demand
            or not self.fits(row, body_bytes)
        ):
            row = self._open(lane, queue, None, kind, demand, grouped=grouped)
            lane.open_rows[key] = row
        return row

    def half(self, lane: TopicLane, queue: MessageQueue | None, options: SendOptions) -> Row:
        """Return the row of a half message; nothing joins it: the end of each stands for itself.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        return self._open(
            lane,
            queue or lane.next_queue(self._is_welcome),
            lane.choose_queue if queue is None else None,
            AT_ONCE,
            options.demand,
            grouped=queue is not None and not options.names_queue,
            half_of=options.half_of,
        )

    def whole(self, lane: TopicLane, queue: MessageQueue | None, kind: int) -> Row:
        """Make a row for messages that come encoded; nothing else joins it, and it is not added.

        Args:
            lane: Their topic.
            queue: The queue that they must go to; ``None``: any queue will do.
            kind: Their kind of delay.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        if queue is not None:
            # Later messages for this queue must not join a row that is ahead of this one.
            lane.open_rows.pop((queue, AT_ONCE, None, PINNED), None)
        return Row(
            queue or lane.next_queue(self._is_welcome),
            lane.properties,
            choose_other=lane.choose_queue if queue is None else None,
            sequenced=self._sequenced,
            kind=kind,
        )

    def _open(
        self,
        lane: TopicLane,
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
            lane.properties,
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
