"""A pull that may be answered more than once: each answer goes on where the one before it ended.

::

    order        positions, room of each queue
      |
    [look] ---- answer 1 ---- [look, hold ... something came, look there] ---- answer 2 ---- ...

A look reads the queues that may have something. At first those are all; later those of which the
last look left something, and those to which something came since. So an answer costs what it
brings, however many queues it could have brought it from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Self

from ariane_broker.log.held_requests import HeldRequests, Watch
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.read.queue_looks import Look, QueueLooks
from ariane_servicekit import AnswerLease
from ariane_storage.reading.filter import Filter

GO_ON_SHARE: Final = 2
"""A pull goes on while that part of the room is left in each of its queues; then the consumer is to
say anew how much there is."""

PASSED_TOLD_SECONDS: Final = 0.1
"""When a filter lets nothing through, the consumer hears so soon how far it has come, and can store
that. Not with each message: there may be many that nobody wants."""


class OpenPull:
    """One order, and how far its answers have come; its ``with`` block ends it.

    Attributes:
        may_go_on: Whether another answer may follow the last one: it brought messages, nothing was
            wrong, nobody interrupts, and every queue has room.
    """

    def __init__(
        self,
        looks: QueueLooks,
        held: HeldRequests,
        order: PullOrder,
        filters: Mapping[str, Filter | None],
        lease: AnswerLease,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        """Have no answer yet; ``filters`` are by topic, and a topic without one means all."""
        self.may_go_on = True
        self._looks = looks
        self._held = held
        self._order = order
        self._filters = filters
        self._lease = lease
        self._monotonic = monotonic
        self._topics = dict.fromkeys(position.queue.topic for position in order.positions)
        self._positions = list(order.positions)
        self._left: set[int] = set()
        self._watch: Watch | None = None
        self._places: dict[QueueKey, list[int]] = {}
        self._interrupted = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take note of nothing that arrives any longer."""
        if self._watch is not None:
            self._held.forget(self._watch)

    def interrupt(self) -> None:
        """End the hold, now and later: what is there is answered."""
        self._interrupted = True
        self.may_go_on = False
        if self._watch is not None:
            self._watch.interrupt()

    async def answer(self) -> list[PulledQueue]:
        """Read what there is, or wait for it.

        Returns:
            The queues of the answer, in the order of the positions: with records, with an error, or
            whose position moved; all queues when the hold time ended. Positions that only moved
            are told after ``PASSED_TOLD_SECONDS``.

        Raises:
            ServiceError: As ``QueueLooks.check``; HELD_PULLS_EXHAUSTED.
        """
        self._looks.check(self._order, self._topics)
        deadline = tell_at = self._monotonic() + self._order.hold_seconds
        moved: dict[int, PulledQueue] = {}
        self._see_arrivals()
        while True:
            look = await self._look_at(self._left)
            passed = self._go_to(look.found)
            if passed and not moved:
                tell_at = min(deadline, self._monotonic() + PASSED_TOLD_SECONDS)
            moved |= passed
            if _says_something(look.found.values()):
                self.may_go_on &= self._has_room(look.found)
                return _in_order(moved)
            if look.unfinished:
                # A filter with few matches reads far; others run in between.
                await asyncio.sleep(0)
                again = not self._interrupted and self._monotonic() < tell_at
                self._see_arrivals()
            else:
                again = await self._hold(tell_at)
            if not again and moved and not self._interrupted and self._monotonic() < deadline:
                self.may_go_on &= self._has_room(moved)
                return _in_order(moved)
            if not again:
                self.may_go_on = False
                found = (await self._look_at(range(len(self._positions)))).found
                self._go_to(found)
                return _in_order(moved | found)

    async def _look_at(self, places: Collection[int]) -> Look:
        """Look, once there is room for what may be found."""
        order, lease = self._order, self._lease
        wanted = max(1, order.size_bytes_max)
        granted = lease.take_at_once(wanted) or await lease.take(wanted)
        used = 0
        try:
            if granted < wanted:
                order = replace(order, size_bytes_max=granted)
            look = self._looks.look(order, self._filters, self._positions, places)
            used = sum(pulled.size_bytes for pulled in look.found.values())
        finally:
            lease.settle(granted, used)
        self._left = look.left
        return look

    async def _hold(self, deadline: float) -> bool:
        """Wait for something that can be read; whether there may be."""
        remaining = deadline - self._monotonic()
        if self._interrupted or remaining <= 0:
            return False
        # Begun in the loop turn of the look, so that nothing was missed.
        watch = self._watch or self._begin_watch()
        come = await self._held.wait(watch, remaining)
        self._see_arrivals()
        return come and not self._interrupted

    def _see_arrivals(self) -> None:
        """Look where something came."""
        if self._watch is None:
            # It is not known which queues got something: look at all.
            self._left = set(range(len(self._positions)))
            return
        for queue in self._watch.arrived:
            self._left.update(self._places[queue])
        self._watch.arrived.clear()

    def _begin_watch(self) -> Watch:
        for place, position in enumerate(self._positions):
            self._places.setdefault(position.queue, []).append(place)
        self._watch = self._held.watch(self._places)
        return self._watch

    def _go_to(self, found: Mapping[int, PulledQueue]) -> dict[int, PulledQueue]:
        """Go on behind what was found, and tell who has something to say."""
        moved: dict[int, PulledQueue] = {}
        for place, pulled in found.items():
            position = self._positions[place]
            if pulled.next_queue_offset != position.queue_offset:
                self._positions[place] = Position(
                    position.queue,
                    pulled.next_queue_offset,
                    _rest(position.record_count_max, len(pulled.sizes)),
                    _rest(position.size_bytes_max, pulled.size_bytes),
                    position.lock_epoch,
                )
            elif pulled.error is None:
                continue
            moved[place] = pulled
        return moved

    def _has_room(self, found: Mapping[int, PulledQueue]) -> bool:
        """Whether queues that gave something may give as much as the consumer has asked for."""
        for place, pulled in found.items():
            first, now = self._order.positions[place], self._positions[place]
            if (
                pulled.error is not None
                or now.record_count_max * GO_ON_SHARE < first.record_count_max
                or now.size_bytes_max * GO_ON_SHARE < first.size_bytes_max
            ):
                return False
        return True


def _rest(room: int, taken: int) -> int:
    """What is left of a room. Where nothing is, the pull ends: to a reader 0 means no limit."""
    return max(0, room - taken)


def _says_something(found: Iterable[PulledQueue]) -> bool:
    return any(len(pulled.sizes) or pulled.error is not None for pulled in found)


def _in_order(found: Mapping[int, PulledQueue]) -> list[PulledQueue]:
    """What the consumer is told, in the order of its positions."""
    return [pulled for _, pulled in sorted(found.items())]
