"""Calls that wait for messages of a group, served in the order in which they came.

All members of a group share new messages. The call that has waited longest gets as many as it
asked for, then the next call. So with more consumers than messages each has its turn, and a message
wakes one call and not all.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.lane import Filters, Lane, Waiter
from ariane_broker.receive.handing_out.receive_order import HandedOut, ReceiveOrder
from ariane_broker.turn_budget import TurnBudget
from ariane_servicekit import AnswerLease
from ariane_servicekit.errors import ServiceError
from ariane_storage.disk.cold import BytesCold
from ariane_storage.errors import StorageError

SERVED_MAX: Final = 16
"""Calls that are served in one turn of the loop, some 100 us each; the next turn goes on."""


class WaitingLine:
    """The calls of one group that wait."""

    def __init__(self, hand_outs: HandOuts, held: HeldRequests, cold_reads: ColdReads) -> None:
        self._hand_outs = hand_outs
        self._held = held
        self._cold_reads = cold_reads
        self._lanes: dict[object, Lane] = {}
        self._numbers = count()
        self._called = False

    def __len__(self) -> int:
        """The number of calls that wait."""
        return sum(len(lane.waiters) for lane in self._lanes.values())

    @property
    def is_unused(self) -> bool:
        """Whether no call waits or looks at queues."""
        return not self._lanes

    def enter(self, order: ReceiveOrder, filters: Filters) -> Lane:
        """Return the lane of an order; the call is in it until it leaves."""
        wanted = (
            frozenset(order.filters.items()),
            order.by_priority,
            order.several_of_a_group,
        )
        lane = self._lanes.get(wanted)
        if lane is None:
            lane = self._lanes[wanted] = Lane(self._held, wanted, filters, self._serve_soon)
        lane.user_count += 1
        return lane

    def leave(self, lane: Lane) -> None:
        """A call looks at queues and waits no longer."""
        lane.user_count -= 1
        if not lane.user_count:
            del self._lanes[lane.wanted]
            lane.close()

    async def wait(
        self, lane: Lane, order: ReceiveOrder, filters: Filters, lease: AnswerLease, seconds: float
    ) -> tuple[list[HandedOut], bool]:
        """Wait for messages, in a lane whose queues were all looked at.

        Returns:
            The messages, and whether to try once more because there was no memory for the answer.

        Raises:
            ServiceError: As ``HandOuts.hand_out``; HELD_PULLS_EXHAUSTED.
            StorageError: As ``HandOuts.hand_out``.
        """
        waiter = Waiter(next(self._numbers), order, filters, lease)
        lane.waiters[waiter] = None
        if lane.is_due:
            self._serve_soon()  # Something has come since it was looked at.
        try:
            await self._held.wait(waiter.watch, seconds)
        except asyncio.CancelledError:
            if waiter.served:
                # The call is gone: its messages need not stay invisible.
                self._hand_outs.give_back(order.group, waiter.served)
                for out in waiter.served:
                    self.call(out.queue)
            raise
        finally:
            lane.waiters.pop(waiter, None)
        if waiter.failure is not None:
            raise waiter.failure
        return waiter.served, waiter.crowded

    def call(self, queue: QueueKey) -> None:
        """Look into a queue soon, for the calls that wait: there may be something."""
        for lane in self._lanes.values():
            lane.note((queue,))

    def serve(self) -> None:
        """Hand out messages to the calls that have waited longest; soon again if there is more.

        Serves ``SERVED_MAX`` calls at most, within the budget of one turn.
        """
        self._called = False
        due = [(lane.first.number, lane) for lane in self._lanes.values() if lane.is_due]
        heapify(due)
        budget, calls_left = TurnBudget(), SERVED_MAX
        while due and calls_left > 0 and not budget.is_spent():
            _, lane = heappop(due)
            calls_left -= self._serve_first(lane, budget)
            if lane.is_due:
                heappush(due, (lane.first.number, lane))
        if due:
            self._serve_soon()

    def _serve_first(self, lane: Lane, budget: TurnBudget) -> bool:
        """Look for messages for the first call of a lane; returns whether its wait has ended."""
        waiter, queues = lane.first, lane.take(budget.things)
        granted = waiter.lease.take_at_once(waiter.order.size_bytes_max)
        waiter.crowded = not granted
        used, left = 0, queues
        if granted:
            try:
                look = self._hand_outs.hand_out(
                    waiter.order,
                    waiter.filters,
                    self._hand_outs.queue_counts(waiter.order),
                    queues,
                    bytes_max=granted,
                    budget=budget,
                )
                waiter.served, left = look.handed, look.left
                used = sum(out.size_bytes for out in waiter.served)
            except BytesCold as cold:
                left = []
                group = waiter.order.group
                fetch = self._cold_reads.begin(group, cold, group)
                fetch.add_done_callback(lambda _: lane.note(queues))
            except (ServiceError, StorageError) as error:
                waiter.failure = error
            finally:
                waiter.lease.settle(granted, used)
        lane.put_back(left)
        if not (waiter.served or waiter.crowded or waiter.failure is not None):
            return False
        del lane.waiters[waiter]
        waiter.watch.interrupt()
        return True

    def _serve_soon(self) -> None:
        """Serve the calls soon, once for all arrivals of this loop turn."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self.serve)


class WaitingLines:
    """The lines of all groups."""

    def __init__(self, hand_outs: HandOuts, held: HeldRequests, cold_reads: ColdReads) -> None:
        self._hand_outs = hand_outs
        self._held = held
        self._cold_reads = cold_reads
        self._lines: dict[str, WaitingLine] = {}

    def enter(self, order: ReceiveOrder, filters: Filters) -> tuple[WaitingLine, Lane]:
        """Return the line of an order's group and the order's lane, for a call that leaves them.

        A line without calls is forgotten: groups come and go.
        """
        group = order.group
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = WaitingLine(self._hand_outs, self._held, self._cold_reads)
        return line, line.enter(order, filters)

    def leave(self, group: str, line: WaitingLine, lane: Lane) -> None:
        """A call of a group looks at queues and waits no longer."""
        line.leave(lane)
        if line.is_unused:
            self._lines.pop(group, None)

    def serve(self, group: str) -> None:
        """Serve the calls of a group that wait: before one that has just come."""
        line = self._lines.get(group)
        if line is not None:
            line.serve()

    def call(self, group: str, queue: QueueKey) -> None:
        """Let the calls of a group that wait look into a queue soon: there may be messages."""
        line = self._lines.get(group)
        if line is not None:
            line.call(queue)
