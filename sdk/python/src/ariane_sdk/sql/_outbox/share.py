"""One partition of an outbox under one lease: choose a batch, record it, send it, mark it as sent.

::

    1  read waiting rows, and choose a queue for each message
    2  record for each queue: epoch, first number, rows             a transaction of its own
    3  send                                                         perhaps more than once
    4  mark the rows as sent, advance the number                    a transaction of its own

If a relay dies after step 2, whether its batch is stored is unknown. The next relay sends the same
bytes again under the same numbers, and the broker stores them once.

Messages that brokers refuse are parked: at once if every broker would refuse them, else after some
attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from sqlalchemy.orm import Session

from ariane_record import ProducerSequence
from ariane_sdk.errors import ArianeError, RouteNotFound
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.routes import exists_perhaps
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.sql._outbox.backoffs import OutboxBackoffs
from ariane_sdk.sql._outbox.parked import Refusal, Refusals
from ariane_sdk.sql._outbox.pulse import RelayPulse
from ariane_sdk.sql._outbox.rows import Lease, OutboxRow, OutboxRows, StreamPlace, WaitingRow
from ariane_sdk.sql._outbox.sends import OutboxSends, Outcome, Verdict

WINDOW_ROWS: Final = 2000
"""Number of waiting messages that are read at a time."""

WINDOWS_MAX: Final = 50
"""The most reads in one round, while no message of those read can be sent now."""

Result = TypeVar("Result")


class Transact(Protocol):
    """Runs a function in a transaction of its own."""

    def __call__(self, step: Callable[[Session], Result]) -> Awaitable[Result]:
        """Run it, and commit."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals and limits of sending."""

    poll_s: float
    """Interval between looks while no message waits."""
    batch_rows_max: int
    """Messages of a batch."""
    batch_bytes_max: int
    """Bytes of their records; a single larger one goes alone."""
    repeat_delay_s_min: float
    """Delay after the first failure."""
    repeat_delay_s_max: float
    """The longest delay."""
    hold_s: float
    """The age at which a lease is renewed."""
    attempts_max: int | None = None
    """How often a message may be refused before it is parked; None: for ever."""


@dataclass(slots=True)
class Plan:
    """A batch that is recorded in the database."""

    place: StreamPlace
    """Its numbers and rows."""
    rows: list[OutboxRow]
    """The messages."""
    maybe_stored: bool
    """Whether an earlier attempt may have stored it."""


class PartitionShare:
    """Sends the waiting messages of a partition, for as long as the lease lasts."""

    def __init__(
        self,
        lease: Lease,
        rows: OutboxRows,
        sends: OutboxSends,
        transact: Transact,
        *,
        pace: Pace,
        pulse: RelayPulse,
        clock: Clock,
    ) -> None:
        self._lease = lease
        self._rows = rows
        self._sends = sends
        self._transact = transact
        self._pace = pace
        self._pulse = pulse
        self._clock = clock
        self._streams: dict[MessageQueue, StreamPlace] = {}
        self._plans: dict[MessageQueue, Plan] = {}
        self._backoffs = OutboxBackoffs(
            clock,
            pulse,
            delay_s_min=pace.repeat_delay_s_min,
            delay_s_max=pace.repeat_delay_s_max,
        )
        self._refusals = Refusals(pace.attempts_max)
        self._held_s = 0.0

    async def load(self) -> None:
        """Read the partition's streams. Whether pending batches are stored is unknown."""
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
        """Send all batches that can be sent now.

        Returns:
            Whether a batch was stored: then more may wait.

        Raises:
            LeaseLost: Another relay has the partition.
            DBAPIError: The database failed; ``load`` before the next round.
        """
        await self._plan()
        ready = {
            queue: plan
            for queue, plan in self._plans.items()
            if self._backoffs.is_over(queue.topic, queue.broker_name)
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
        """Choose the next batches, and record them before they are sent."""
        chosen: dict[MessageQueue, list[int]] = {}
        # A message may not overtake one of its group that waits, or is on its way.
        held = {
            (queue.topic, row.message.message_group)
            for queue, plan in self._plans.items()
            for row in plan.rows
            if row.message.message_group
        }
        last_row_id = 0
        for _ in range(WINDOWS_MAX):
            waiting = await self._waiting(last_row_id)
            if not waiting:
                return
            refused = await self._learn_routes(waiting)
            chosen = self._choose([row for row in waiting if row.topic not in refused], held)
            if chosen or len(waiting) < WINDOW_ROWS:
                break
            last_row_id = waiting[-1].row_id
        if chosen:
            await self._write_down(chosen)

    async def _waiting(self, last_row_id: int) -> list[WaitingRow]:
        """Waiting messages behind a row, without topics whose routes are looked up later."""
        nowhere = self._backoffs.nowhere()
        on_their_way = [row for plan in self._plans.values() for row in plan.place.pending_rows]
        return await self._transact(
            lambda session: self._rows.waiting(
                session,
                self._lease,
                without=on_their_way,
                without_topics=nowhere,
                after_row_id=last_row_id,
                count_max=WINDOW_ROWS,
            )
        )

    async def _learn_routes(self, waiting: Sequence[WaitingRow]) -> Mapping[str, ArianeError]:
        """Look up routes; messages without a route are parked after some attempts."""
        topics = {row.topic for row in waiting}
        refused = await self._sends.learn_routes(topics)
        for topic in topics:
            error = refused.get(topic)
            if error is None:
                self._backoffs.end(topic, "")
                continue
            self._backoffs.note(topic, "", error)
            if isinstance(error, RouteNotFound) and exists_perhaps(error):
                continue
            row_ids = [row.row_id for row in waiting if row.topic == topic]
            await self._park(self._refused(row_ids, error))
        return refused

    def _refused(
        self, row_ids: Sequence[int], error: Exception | None, *, maybe_stored: bool = False
    ) -> list[Refusal]:
        """Count refused messages; return those that are given up."""
        given_up = self._refusals.refused(row_ids, error, maybe_stored=maybe_stored)
        if self._refusals.bring_nearer(row_ids):
            self._pulse.moved()
        return given_up

    async def _park(self, refusals: Sequence[Refusal]) -> None:
        if not refusals:
            return

        def write(session: Session) -> None:
            self._rows.hold(session, self._lease)
            self._rows.park(session, refusals)

        await self._transact(write)
        self._parked(refusals)

    def _parked(self, refusals: Sequence[Refusal]) -> None:
        self._refusals.forget([refusal.row_id for refusal in refusals])
        for refusal in refusals:
            logger.warning(
                "row %d of the outbox is parked after attempt %d: %s",
                refusal.row_id,
                refusal.attempts,
                refusal.error,
            )

    async def _write_down(self, chosen: Mapping[MessageQueue, list[int]]) -> None:
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

    def _choose(
        self, waiting: Sequence[WaitingRow], held: set[tuple[str, str]]
    ) -> dict[MessageQueue, list[int]]:
        """The rows of the next batch of each queue that is free.

        Args:
            waiting: Waiting messages, in order.
            held: Message groups that must wait; further ones are added.
        """
        chosen: dict[MessageQueue, list[int]] = {}
        size_bytes: dict[MessageQueue, int] = {}
        current: dict[str, MessageQueue] = {}

        def has_room(queue: MessageQueue, record_bytes: int) -> bool:
            if queue in self._plans or not self._backoffs.is_over(queue.topic, queue.broker_name):
                return False
            rows = chosen.get(queue)
            return rows is None or (
                not self._refusals.is_suspect(rows[0])
                and len(rows) < self._pace.batch_rows_max
                and size_bytes[queue] + record_bytes <= self._pace.batch_bytes_max
            )

        for row in waiting:
            group = (row.topic, row.message_group)
            if row.message_group:
                queue = None if group in held else self._sends.group_queue(*group)
                alone = self._refusals.is_suspect(row.row_id) and queue in chosen
                if queue is None or alone or not has_room(queue, row.record_bytes):
                    held.add(group)
                    continue
            else:
                queue = current.get(row.topic)
                alone = self._refusals.is_suspect(row.row_id)
                if queue is None or alone or not has_room(queue, row.record_bytes):
                    queue = self._sends.next_queue(
                        row.topic, lambda queue: queue not in chosen and has_room(queue, 0)
                    )
                if queue is None:
                    continue
                current[row.topic] = queue
            chosen.setdefault(queue, []).append(row.row_id)
            size_bytes[queue] = size_bytes.get(queue, 0) + row.record_bytes
        return chosen

    async def _settle(self, outcomes: Mapping[MessageQueue, Outcome]) -> bool:
        """Store the outcomes of batches."""
        changed: dict[MessageQueue, StreamPlace] = {}
        sent: list[int] = []
        parked: list[Refusal] = []
        for queue, outcome in outcomes.items():
            plan = self._plans[queue]
            place = plan.place
            if outcome.verdict is Verdict.STORED:
                sent += place.pending_rows
                following = place.next_sequence + len(place.pending_rows)
                changed[queue] = StreamPlace(place.epoch, following)
                self._backoffs.end(queue.topic, queue.broker_name)
                continue
            following_place, given_up = self._after_failure(queue, plan, outcome)
            parked += given_up
            if following_place is not None:
                changed[queue] = following_place
        if changed:

            def write(session: Session) -> None:
                self._rows.write_streams(session, self._lease, changed.items())
                if sent:
                    self._rows.mark_sent(session, sent)
                if parked:
                    self._rows.park(session, parked)

            await self._transact(write)
            self._held_s = self._clock.monotonic_s()
            self._streams.update(changed)
            for queue in changed:
                del self._plans[queue]
            self._refusals.forget(sent)
            if sent:
                self._pulse.moved()
            self._parked(parked)
        return bool(sent)

    def _after_failure(
        self, queue: MessageQueue, plan: Plan, outcome: Outcome
    ) -> tuple[StreamPlace | None, list[Refusal]]:
        """The state of a stream after a batch that was not stored, and the messages given up.

        Returns:
            None in place of the state if the same batch is to be sent again.
        """
        verdict, error = outcome
        place = plan.place
        renumbered = StreamPlace(place.epoch + 1, 0)
        if verdict is not Verdict.REFUSED:
            self._backoffs.note(queue.topic, queue.broker_name, error)
            plan.maybe_stored |= verdict is Verdict.UNKNOWN
            return (renumbered if verdict is Verdict.RENUMBER else None), []
        given_up = self._refused(place.pending_rows, error, maybe_stored=plan.maybe_stored)
        if len(place.pending_rows) == 1 or not self._refusals.is_suspect(place.pending_rows[0]):
            self._backoffs.note(queue.topic, queue.broker_name, error)
        if plan.maybe_stored:
            return (renumbered if given_up else None), given_up
        return place._replace(pending_rows=()), given_up
