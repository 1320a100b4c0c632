"""A pull with one or more answers: each answer continues where the one before ended.

::

    order        positions, room of each queue
      |
    [look] ---- answer 1 ---- [look, hold ... something came, look there] ---- answer 2 ---- ...

A look reads the queues that may have messages. The first look reads all queues; later ones read
queues that the last look left unfinished and queues in which messages have arrived since: of a
filter by tags, messages with hashes of these tags, and of one by a condition, messages that fulfil
it. Others move the position when the hold time is over. So the cost of an answer depends on what it
brings, not on the number of queues of the pull.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Self

from ariane_broker.filters.filter import interest_of
from ariane_broker.interest import Interest
from ariane_broker.log.held_requests import HeldRequests, Watch
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.read.queue_looks import Look, QueueLooks
from ariane_servicekit import AnswerLease
from ariane_storage.reading.filter import Filter

GO_ON_SHARE: Final = 2
"""A pull continues while half of the room is left in each of its queues; then the consumer must
send its room anew."""

PASSED_REPORT_SECONDS: Final = 0.1
"""If a filter passes no message, the consumer gets its new position after this time, so that it can
store it. A position for each message would flood consumers with few matches."""


class OpenPull:
    """One order and the progress of its answers; leaving the ``with`` block ends it."""

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
        """Start before the first answer; a topic that ``filters`` lacks wants all messages."""
        self.may_go_on = True
        """Whether another answer may follow: the last one brought messages and no error, the pull
        is not interrupted, and every queue has room."""
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
        # The places of queues that the watch does not have yet; once there is one, all are left.
        self._unwatched = set(range(len(self._positions)))
        self._places: dict[QueueKey, list[int]] = {}
        self._interrupted = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching for arrivals."""
        if self._watch is not None:
            self._held.forget(self._watch)

    def interrupt(self) -> None:
        """End the hold, now and later: the pull answers with what there is."""
        self._interrupted = True
        self.may_go_on = False
        if self._watch is not None:
            self._watch.interrupt()

    async def answer(self) -> list[PulledQueue]:
        """Read messages, or wait for some.

        Returns:
            The queues of the answer, in the order of the positions: those with records, an error,
                or a moved position; all queues when the hold time is over. A position that only
                moved is reported after ``PASSED_REPORT_SECONDS``.

        Raises:
            ServiceError: As ``QueueLooks.check``; HELD_PULLS_EXHAUSTED.
        """
        self._looks.check(self._order, self._topics)
        deadline = report_at = self._monotonic() + self._order.hold_seconds
        moved: dict[int, PulledQueue] = {}
        self._take_arrivals()
        while True:
            # Again after each hold: what arrives after a pause is not handed out.
            self._looks.check_group(self._order.consumer_group)
            look = await self._look_at(self._left)
            passed = self._advance(look.found)
            if passed and not moved:
                report_at = min(deadline, self._monotonic() + PASSED_REPORT_SECONDS)
            moved |= passed
            if _is_worth_an_answer(look.found.values()):
                self.may_go_on &= self._has_room(look.found)
                return _in_order(moved)
            if look.coming:
                # The messages are there: nothing is held, however short the hold time.
                await asyncio.wait(look.coming, return_when=asyncio.FIRST_COMPLETED)
                again = not self._interrupted
                self._take_arrivals()
            elif look.unfinished:
                # A filter with few matches reads far: other tasks get their turn in between.
                await asyncio.sleep(0)
                again = not self._interrupted and self._monotonic() < report_at
                self._take_arrivals()
            else:
                again = await self._hold(report_at)
            if not again and moved and not self._interrupted and self._monotonic() < deadline:
                self.may_go_on &= self._has_room(moved)
                return _in_order(moved)
            if not again:
                self.may_go_on = False
                found = (await self._look_at(range(len(self._positions)))).found
                self._advance(found)
                return _in_order(moved | found)

    async def _look_at(self, places: Collection[int]) -> Look:
        """Look at queues, once there is room for the answer."""
        order, lease = self._order, self._lease
        wanted = max(1, order.size_bytes_max)
        granted = lease.take_at_once(wanted) or await lease.take(wanted)
        used = 0
        try:
            if granted < wanted:
                order = replace(order, size_bytes_max=granted)
            # What arrives between the turns of the look is not missed.
            look = await self._looks.look(
                order, self._filters, self._positions, places, self._watch_places
            )
            used = sum(pulled.size_bytes for pulled in look.found.values())
        finally:
            lease.settle(granted, used)
        self._left = look.left
        if self._watch is not None:
            # What this turn of the loop has read to its end is not looked at again unless it grows.
            self._watch_places(self._unwatched - look.left)
        return look

    async def _hold(self, deadline: float) -> bool:
        """Wait for arrivals; returns whether there may be something to read."""
        remaining = deadline - self._monotonic()
        if self._interrupted or remaining <= 0:
            return False
        # What is not watched yet was read in this turn of the loop: no arrival is missed.
        watch = self._watch_places(self._unwatched)
        come = await self._held.wait(watch, remaining)
        self._take_arrivals()
        return come and not self._interrupted

    def _take_arrivals(self) -> None:
        """Mark the queues in which messages arrived for the next look."""
        if self._watch is None:
            # The arrivals are not known by queue: look at all.
            self._left = set(range(len(self._positions)))
            return
        for queue in self._watch.arrived:
            self._left.update(self._places[queue])
        self._watch.arrived.clear()

    def _watch_places(self, places: Collection[int]) -> Watch:
        """Watch those of some queues that are not watched yet."""
        if self._watch is None:
            self._watch = Watch()
        fresh = self._unwatched.intersection(places)
        if fresh:
            self._unwatched -= fresh
            queues: dict[QueueKey, Interest | None] = {}
            for place in fresh:
                queue = self._positions[place].queue
                self._places.setdefault(queue, []).append(place)
                wanted = self._filters.get(queue.topic)
                queues[queue] = None if wanted is None else interest_of(wanted)
            self._held.watch_also(self._watch, queues)
        return self._watch

    def _advance(self, found: Mapping[int, PulledQueue]) -> dict[int, PulledQueue]:
        """Move the positions behind what was found; returns the queues to report."""
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
        """Whether all queues that brought messages have room for more."""
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
    """The rest of a room. With none left the pull ends, since 0 would mean no limit."""
    return max(0, room - taken)


def _is_worth_an_answer(found: Iterable[PulledQueue]) -> bool:
    return any(
        len(pulled.sizes) or pulled.error is not None or len(pulled.lost_offsets)
        for pulled in found
    )


def _in_order(found: Mapping[int, PulledQueue]) -> list[PulledQueue]:
    """The queues in the order of the consumer's positions."""
    return [pulled for _, pulled in sorted(found.items())]
