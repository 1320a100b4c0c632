"""Message groups that move to other queues because their queues are gone.

When a topic gets fewer queues to write, its message groups are divided among the remaining ones.
The broker refuses rows in flight to the other queues, or has stored them just before. No later
message of a group may overtake an earlier one, so groups move in three steps:

1. The new route is known, but some rows of groups for lost queues are **in flight**. Later
messages of the groups still go to the old queues, and wait there behind these rows.
2. When none is in flight any more, and none is repeated because it may be stored, the other rows
are taken back: those that were refused, and those that wait behind them.
3. Their messages are put into rows anew, in their order. From then on groups follow the route.

A queue is lost if its broker is in the route without it. A broker that is missing from the route
may come back with its queues: its rows wait for it, and other groups go on. Messages whose
sender named the queue do not move.
"""

from __future__ import annotations

from functools import partial

from ariane_sdk.errors import ArianeError, SendError
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.topic_info import PutNow, SendOptions, TopicInfo
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.routing.route import Route


class GroupMoves:
    """Makes message groups follow the routes of their topics."""

    def __init__(self, sending: AppendCalls, put: PutNow) -> None:
        self._sending = sending
        self._put = put
        # For each topic the one row that it waits for, and the route: calls that end meanwhile
        # cost one comparison, and no search through everything in flight.
        self._awaited: dict[str, tuple[Row, Route | None]] = {}

    def follow(self, info: TopicInfo, route: Route) -> None:
        """Make a topic follow a route; its message groups follow as soon as none is overtaken."""
        info.groups_held = True
        info.follow(route)
        self._move(info)

    def take_over(self, info: TopicInfo, row: Row) -> bool:
        """Move a row that was refused, or keep it until the calls with others have ended.

        Returns:
            Whether the row's queue is lost; for other rows the caller decides.
        """
        if row.maybe_stored or not _has_lost_queue(row, info.route):
            return False
        self._look_again(info)
        return True

    def _look_again(self, info: TopicInfo) -> None:
        """Move rows, unless the awaited row is still in flight."""
        row, route = self._awaited.get(info.topic, (None, None))
        if row is None or row.settled or info.route is not route or not _may_be_stored(row):
            self._move(info)

    def _move(self, info: TopicInfo) -> None:
        """Move the rows of lost queues, now or when none of them is in flight."""
        grouped = [row for row in self._sending.unsettled.of_topic(info.topic) if row.grouped]
        without_queue = [row for row in grouped if _has_lost_queue(row, info.route)]
        self._sending.release(set(grouped).difference(without_queue))
        # The call that was sent last mostly ends last.
        awaited = next(filter(_may_be_stored, reversed(without_queue)), None)
        if awaited is not None:
            self._awaited[info.topic] = awaited, info.route
            self._sending.unsettled.on_call_end(info.topic, partial(self._look_again, info))
            return
        self._awaited.pop(info.topic, None)
        self._sending.unsettled.on_call_end(info.topic, None)
        info.follow_groups()
        if without_queue:
            self._sending.take_out(without_queue)
            info.close_pinned()
            for row in without_queue:
                self._send_anew(info, row)
            # Later messages have later deadlines than these.
            info.close_pinned()

    def _send_anew(self, info: TopicInfo, gone: Row) -> None:
        deadline_s = gone.deadline_s
        options = SendOptions(demand=gone.demand, half_of=gone.half_of)
        for message, future in gone.take_apart():
            try:
                row = self._put(info, message, options, future)
            except ArianeError as error:
                if not future.done():
                    future.set_exception(_refusal(error))
            else:
                row.deadline_s = min(row.deadline_s, deadline_s)


def _may_be_stored(row: Row) -> bool:
    """Whether a row may be stored in its queue by now, or soon."""
    return row.in_flight or row.maybe_stored


def _has_lost_queue(row: Row, route: Route | None) -> bool:
    """Whether a row is of message groups that the route puts into other queues."""
    if route is None or not row.grouped:
        return False
    broker = route.broker(row.queue.broker_name)
    is_there = broker is not None and bool(broker.primary_address)
    return is_there and bool(route.group_queues) and row.queue not in route.group_queues


def _refusal(error: ArianeError) -> SendError:
    """The error for messages that no queue takes any more."""
    text = str(error).removesuffix(".")
    refusal = SendError(f"{text}; it was not stored", reason=error.reason, retriable=True)
    refusal.__cause__ = error
    return refusal
