"""One partition of an outbox under one lease: choose, write down, send, mark as sent.

::

    1  read what waits, and choose a queue for each message
    2  write down for each queue: epoch, first number, rows         a transaction of its own
    3  send                                                         perhaps more than once
    4  mark the rows as sent, move the number on                    a transaction of its own

A relay that dies after 2 leaves a batch of which nobody knows whether it is stored. The next one
sends it again, byte by byte and number by number, and the broker stores it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from sqlalchemy.orm import Session

from ariane_record import ProducerSequence
from ariane_sdk._clock import Clock
from ariane_sdk._log import logger
from ariane_sdk._message import MessageQueue
from ariane_sdk.sql._outbox_rows import Lease, OutboxRow, OutboxRows, StreamPlace, WaitingRow
from ariane_sdk.sql._outbox_sends import OutboxSends, Outcome, Verdict

WINDOW_ROWS: Final = 2000
"""So many waiting messages are looked at in one round."""

DOUBLINGS_MAX: Final = 16

Result = TypeVar("Result")


class Transact(Protocol):
    """Does something in a transaction of its own."""

    def __call__(self, step: Callable[[Session], Result]) -> Awaitable[Result]:
        """Do it, and commit."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast, and in what portions.

    Attributes:
        poll_s: How long to wait when nothing waits.
        batch_rows_max: Messages of a batch.
        batch_bytes_max: Bytes of their bodies.
        repeat_delay_s_min: How long to wait after the first failure.
        repeat_delay_s_max: How long at most.
        hold_s: How long a lease may rest before it is moved on.
    """

    poll_s: float
    batch_rows_max: int
    batch_bytes_max: int
    repeat_delay_s_min: float
    repeat_delay_s_max: float
    hold_s: float


@dataclass(slots=True)
class Plan:
    """A batch that is written down.

    Attributes:
        place: Its numbers and rows.
        rows: The messages.
        maybe_stored: Whether one of its travels may have stored it.
    """

    place: StreamPlace
    rows: list[OutboxRow]
    maybe_stored: bool


@dataclass(slots=True)
class Trouble:
    """Failures in a row, for a topic on a broker.

    Attributes:
        count: How many.
        until_s: When to try again, by the monotonic clock.
    """

    count: int = 0
    until_s: float = 0.0


class PartitionShare:
    """Sends what waits in a partition, for as long as the lease holds."""

    def __init__(
        self,
        lease: Lease,
        rows: OutboxRows,
        sends: OutboxSends,
        transact: Transact,
        *,
        pace: Pace,
        clock: Clock,
    ) -> None:
        """Take the parts.

        Args:
            lease: The right to send.
            rows: The database.
            sends: The brokers.
            transact: Does database work.
            pace: How fast.
            clock: Paces rounds.
        """
        self._lease = lease
        self._rows = rows
        self._sends = sends
        self._transact = transact
        self._pace = pace
        self._clock = clock
        self._streams: dict[MessageQueue, StreamPlace] = {}
        self._plans: dict[MessageQueue, Plan] = {}
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._held_s = 0.0

    async def load(self) -> None:
        """Learn where the partition stands. What is on its way may be stored: nobody knows."""
        self._plans.clear()

        def read(session: Session) -> None:
            self._rows.hold(session, self._lease)
            self._streams = self._rows.streams(session, self._lease)
            for queue, place in self._streams.items():
                if place.pending_rows:
                    rows = self._rows.load(session, place.pending_rows)
                    self._plans[queue] = Plan(place, rows, maybe_stored=True)

        await self._transact(read)
        self._held_s = self._clock.monotonic_s()

    async def round(self) -> bool:
        """Send what can be sent now.

        Returns:
            Whether anything was stored: then more may wait.

        Raises:
            LeaseLost: Another relay has the partition.
            DBAPIError: The database failed; ``load`` before the next round.
        """
        await self._plan()
        ready = {
            queue: plan
            for queue, plan in self._plans.items()
            if self._trouble(queue).until_s <= self._clock.monotonic_s()
        }
        if not ready:
            if self._clock.monotonic_s() - self._held_s > self._pace.hold_s:
                await self._transact(lambda session: self._rows.hold(session, self._lease))
                self._held_s = self._clock.monotonic_s()
            return False
        outcomes = await asyncio.gather(
            *(
                self._sends.send(
                    queue,
                    ProducerSequence(
                        self._lease.producer_id, plan.place.epoch, plan.place.next_sequence
                    ),
                    plan.rows,
                )
                for queue, plan in ready.items()
            )
        )
        return await self._settle(dict(zip(ready, outcomes, strict=True)))

    async def _plan(self) -> None:
        """Choose what goes next, and write it down before it leaves."""
        on_their_way = [row for plan in self._plans.values() for row in plan.place.pending_rows]
        waiting = await self._transact(
            lambda session: self._rows.waiting(
                session, self._lease, without=on_their_way, count_max=WINDOW_ROWS
            )
        )
        if not waiting:
            return
        refused = await self._sends.learn_routes({row.topic for row in waiting})
        for topic, error in refused.items():
            logger.warning("messages of the outbox for %s wait: %s", topic, error)
        chosen = self._choose([row for row in waiting if row.topic not in refused])
        if not chosen:
            return
        changed = {
            queue: self._streams.get(queue, StreamPlace(0, 0))._replace(pending_rows=tuple(row_ids))
            for queue, row_ids in chosen.items()
        }

        def write(session: Session) -> dict[MessageQueue, list[OutboxRow]]:
            self._rows.write_streams(session, self._lease, changed.items())
            return {
                queue: self._rows.load(session, place.pending_rows)
                for queue, place in changed.items()
            }

        loaded = await self._transact(write)
        self._held_s = self._clock.monotonic_s()
        self._streams.update(changed)
        for queue, rows in loaded.items():
            self._plans[queue] = Plan(changed[queue], rows, maybe_stored=False)

    def _choose(self, waiting: list[WaitingRow]) -> dict[MessageQueue, list[int]]:
        """The rows of the next batch of each queue that is free."""
        now_s = self._clock.monotonic_s()
        chosen: dict[MessageQueue, list[int]] = {}
        size_bytes: dict[MessageQueue, int] = {}
        current: dict[str, MessageQueue] = {}
        # Nothing of a group may overtake what waits before it, or is on its way elsewhere.
        held = {
            (queue.topic, row.message.message_group)
            for queue, plan in self._plans.items()
            for row in plan.rows
            if row.message.message_group
        }

        def has_room(queue: MessageQueue, body_bytes: int) -> bool:
            if queue in self._plans or self._trouble(queue).until_s > now_s:
                return False
            rows = chosen.get(queue)
            return rows is None or (
                len(rows) < self._pace.batch_rows_max
                and size_bytes[queue] + body_bytes <= self._pace.batch_bytes_max
            )

        for row in waiting:
            group = (row.topic, row.message_group)
            if row.message_group:
                queue = None if group in held else self._sends.group_queue(*group)
                if queue is None or not has_room(queue, row.body_bytes):
                    held.add(group)
                    continue
            else:
                queue = current.get(row.topic)
                if queue is None or not has_room(queue, row.body_bytes):
                    queue = self._sends.next_queue(
                        row.topic, lambda queue: queue not in chosen and has_room(queue, 0)
                    )
                if queue is None:
                    continue
                current[row.topic] = queue
            chosen.setdefault(queue, []).append(row.row_id)
            size_bytes[queue] = size_bytes.get(queue, 0) + row.body_bytes
        return chosen

    async def _settle(self, outcomes: Mapping[MessageQueue, Outcome]) -> bool:
        """Write down what became of batches."""
        changed: dict[MessageQueue, StreamPlace] = {}
        sent: list[int] = []
        for queue, (verdict, error) in outcomes.items():
            plan = self._plans[queue]
            place = plan.place
            if verdict is Verdict.STORED:
                sent += place.pending_rows
                following = place.next_sequence + len(place.pending_rows)
                changed[queue] = StreamPlace(place.epoch, following)
                self._troubles.pop((queue.topic, queue.broker_name), None)
                continue
            self._note_trouble(queue, error)
            if verdict is Verdict.RENUMBER:
                changed[queue] = StreamPlace(place.epoch + 1, 0)
            elif verdict is Verdict.REFUSED and not plan.maybe_stored:
                changed[queue] = place._replace(pending_rows=())
            else:
                plan.maybe_stored |= verdict is Verdict.UNKNOWN
        if changed:

            def write(session: Session) -> None:
                self._rows.write_streams(session, self._lease, changed.items())
                if sent:
                    self._rows.mark_sent(session, sent)

            await self._transact(write)
            self._held_s = self._clock.monotonic_s()
            self._streams.update(changed)
            for queue in changed:
                del self._plans[queue]
        return bool(sent)

    def _trouble(self, queue: MessageQueue) -> Trouble:
        return self._troubles.get((queue.topic, queue.broker_name)) or Trouble()

    def _note_trouble(self, queue: MessageQueue, error: Exception | None) -> None:
        trouble = self._troubles.setdefault((queue.topic, queue.broker_name), Trouble())
        delay_s = self._pace.repeat_delay_s_min * 2 ** min(trouble.count, DOUBLINGS_MAX)
        trouble.count += 1
        trouble.until_s = self._clock.monotonic_s() + min(delay_s, self._pace.repeat_delay_s_max)
        logger.warning("a batch of the outbox for %s waits: %s", queue, error)
