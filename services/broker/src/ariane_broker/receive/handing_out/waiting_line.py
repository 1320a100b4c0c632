"""Calls that wait for messages of a group, served in the order in which they came.

All members of a group share new messages. The call that has waited longest gets as many as it
asked for, then the next call. So with more consumers than messages each has its turn, and a message
wakes one call and not all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane_broker.filters.expression import FilterExpression
from ariane_broker.filters.filter import wish_of
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.held_requests import HeldRequests, Watch
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.receive_order import HandedOut, ReceiveOrder
from ariane_broker.wish import Wish
from ariane_servicekit import AnswerLease
from ariane_servicekit.errors import ServiceError
from ariane_storage.disk.cold import BytesCold
from ariane_storage.errors import StorageError
from ariane_storage.reading.filter import Filter

Filters = Mapping[str, Filter | None]

SERVED_MAX: Final = 16
"""Calls that are served in one turn of the loop, some 100 us each; the next turn goes on."""


@dataclass(slots=True, eq=False)
class _Waiter:
    """A waiting call."""

    order: ReceiveOrder
    """Its order."""
    filters: Filters
    """The filter of each topic; None: all messages."""
    lease: AnswerLease
    """Memory for its answer."""
    watch: Watch = field(default_factory=Watch)
    """Ends its wait."""
    served: list[HandedOut] = field(default_factory=list)
    """The messages handed out to it."""
    failure: ServiceError | StorageError | None = None
    """The error that it raises."""
    crowded: bool = False
    """Whether there was no memory for its answer at its turn."""

    @property
    def wanted(self) -> tuple[tuple[tuple[str, FilterExpression], ...], bool]:
        """A key that is equal for calls that want the same messages."""
        return tuple(sorted(self.order.filters.items(), key=str)), self.order.by_priority


class WaitingLine:
    """The waiting calls of one group."""

    def __init__(self, hand_outs: HandOuts, held: HeldRequests, cold_reads: ColdReads) -> None:
        self._hand_outs = hand_outs
        self._held = held
        self._cold_reads = cold_reads
        self._waiting: list[_Waiter] = []
        self._watch: Watch | None = None
        # The messages that matter in each watched queue; None: all do.
        self._wishes: dict[QueueKey, Wish | None] = {}
        self._called = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(
        self, order: ReceiveOrder, filters: Filters, lease: AnswerLease, seconds: float
    ) -> tuple[list[HandedOut], bool]:
        """Wait for messages.

        Returns:
            The messages, and whether to try once more because there was no memory for the answer.

        Raises:
            ServiceError: As ``HandOuts.hand_out``; HELD_PULLS_EXHAUSTED.
            StorageError: As ``HandOuts.hand_out``.
        """
        waiter = _Waiter(order, filters, lease)
        self._waiting.append(waiter)
        # In the loop turn in which no message was found, so that no arrival is missed.
        self._watch_queues(order, filters)
        try:
            await self._held.wait(waiter.watch, seconds)
        except asyncio.CancelledError:
            if waiter.served:
                # The call is gone: its messages need not stay invisible.
                self._hand_outs.give_back(order.group, waiter.served)
                self.call()
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            if not self._waiting:
                self._forget()
        if waiter.failure is not None:
            raise waiter.failure
        return waiter.served, waiter.crowded

    def call(self) -> None:
        """Serve the calls soon, once for all arrivals of this loop turn."""
        if self._waiting and not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self.serve)

    def serve(self) -> None:
        """Hand out messages to the calls that have waited longest; soon again if there is more."""
        self._called = False
        nothing_for = set()
        served_count = 0
        for waiter in list(self._waiting):
            if served_count == SERVED_MAX:
                self.call()
                return
            wanted = waiter.wanted
            if wanted in nothing_for:
                continue
            granted = waiter.lease.take_at_once(waiter.order.size_bytes_max)
            waiter.crowded = not granted
            if granted:
                used = 0
                try:
                    waiter.served, unfinished = self._hand_outs.hand_out(
                        waiter.order, waiter.filters, bytes_max=granted
                    )
                    if unfinished:
                        self.call()
                    used = sum(out.size_bytes for out in waiter.served)
                except BytesCold as cold:
                    group = waiter.order.group
                    fetch = self._cold_reads.begin(group, cold, group)
                    fetch.add_done_callback(lambda _: self.call())
                except (ServiceError, StorageError) as error:
                    waiter.failure = error
                finally:
                    waiter.lease.settle(granted, used)
                if not waiter.served and waiter.failure is None:
                    nothing_for.add(wanted)
                    continue
            self._waiting.remove(waiter)
            waiter.watch.interrupt()
            served_count += 1

    def _watch_queues(self, order: ReceiveOrder, filters: Filters) -> None:
        """Watch what a call waits for besides what others wait for already.

        Where all want some messages only, others wake nobody: the next call passes them over.
        """
        known, wishes = self._wishes, dict(self._wishes)
        for queue in self._hand_outs.queues(order):
            of_call = wish_of(filters.get(queue.topic))
            before = known.get(queue, of_call)
            wishes[queue] = None if before is None or of_call is None else before | of_call
        if self._watch is not None and wishes == known:
            return
        before_this = self._watch
        self._watch = self._held.watch(wishes, on_arrival=self.call)
        if before_this is not None:
            self._held.forget(before_this)
        self._wishes = wishes

    def _forget(self) -> None:
        if self._watch is not None:
            self._held.forget(self._watch)
            self._watch = None
            self._wishes = {}


class WaitingLines:
    """The lines of all groups."""

    def __init__(self, hand_outs: HandOuts, held: HeldRequests, cold_reads: ColdReads) -> None:
        self._hand_outs = hand_outs
        self._held = held
        self._cold_reads = cold_reads
        self._lines: dict[str, WaitingLine] = {}

    def line(self, group: str) -> WaitingLine:
        """The line of a group."""
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = WaitingLine(self._hand_outs, self._held, self._cold_reads)
        return line

    def call(self, group: str) -> None:
        """Have the calls that wait for messages of a group look again."""
        line = self._lines.get(group)
        if line is not None:
            line.call()
