r"""The calls to one broker: batches that gather while calls are in flight form the next one.

::

    waiting   [ batch orders#0 ][ batch orders#3 ][ batch bills#1 ] ...      open batches still grow
                    \________________________________/
    in flight          one AppendRecords with all of them that fit

No timer is needed to gather messages. A single message finds no call in flight and is sent in this
very turn of the loop; under load a batch has what arrived during one round trip. Where many
messages wait, gathering more gains nothing: another call is sent beside those in flight, so that
the broker works on one while the client encodes the next.

Many small messages gather likewise. But senders that wait for one answer all send again when it
comes, so that client and broker would work in turn, each waiting for the other. So their messages
are sent in two calls: after one answer the client makes the next call while the broker works on the
other. A broker that answers only when the disk or a replica has the messages waits much and works
little; two calls would wait for twice as many flushes, so one call takes all. Very many tiny
batches are sent in turns (``staggered_calls``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import NEVER_CUT
from ariane_sdk.producer.sending.staggered_calls import (
    BATCHES_PER_CALL_MAX,
    STAGGERED_BATCHES_MIN,
    STAGGERED_CALLS_MAX,
    CallLimits,
    StaggeredCalls,
)
from ariane_sdk.producer.sending.waiting_bundles import WaitingBundles
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

LARGE_CALL_BYTES: Final = 256 << 10
"""With so many bytes, the cost of the call itself is small compared to that of its records."""

OVERLAP_COUNT_MIN: Final = 24
"""Fewer messages are not worth a call of their own beside another."""

OVERLAP_CALLS_MAX: Final = 2
"""Small calls at the same time: one that the broker works on, and one that is made meanwhile."""

EVERYTHING: Final = CallLimits(NEVER_CUT, 0)
"""A call that takes everything, if there is room."""

_NO_QUEUES: Final[AbstractSet[MessageQueue]] = frozenset()

TakeApart: TypeAlias = Callable[[Bundle], Sequence[SendBatch]]
"""Has the batches of a bundle go on by themselves."""


def is_worth_a_call(count: int, batch_count: int) -> bool:
    """Whether messages of small batches are worth a second call beside the first.

    Each tiny batch has its price, and more calls make more batches of the same messages.
    """
    return count >= OVERLAP_COUNT_MIN * max(1, batch_count)


@dataclass(slots=True, eq=False)
class AppendCall:
    """One call to a broker; the sender gets it back with the outcome of everything it carried.

    Attributes:
        broker_name: The broker.
        over: Called with the call when nothing is left to do for it.
        batches: The batches that it carries; for a bundle, the batches once it is taken apart.
        bundle: The bundle that it carries instead of batches.
        queues: Queues to which no other call may send until this one is over.
        message_count: Number of messages.
        batch_count: Number of batches, a bundle's included.
        begun_s: When the call was sent, by the monotonic clock.
        peer: The broker's name and address, for the text of errors.
        refused: The batches that were not acknowledged, each with the reason.
        lost: Whether the broker gave no answer.
        answers_late: Whether the broker answers only when the messages are safer than in its
            memory; None while that is not known.
    """

    broker_name: str
    over: Callable[[AppendCall], None]
    batches: Sequence[SendBatch]
    bundle: Bundle | None
    queues: set[MessageQueue]
    message_count: int
    batch_count: int
    begun_s: float = 0.0
    peer: str = ""
    refused: list[tuple[SendBatch, CallError]] = field(default_factory=list)
    lost: bool = False
    answers_late: bool | None = None

    def refuse_all(self, error: CallError) -> None:
        """Refuse all batches for the same reason."""
        self.lost = isinstance(error, ServiceUnavailable | DeadlinePassed)
        self.refused = [(batch, error) for batch in self.batches]


class BrokerSender:
    """The batches for one broker, waiting and in flight.

    Attributes:
        broker_name: The broker's name.
        cut_count: Number of messages after which another batch begins: about half of all that wait
            or are in flight, so that two calls can share them.
        answers_late: Whether the broker answers only when messages are safer than in its memory.
    """

    def __init__(
        self,
        broker_name: str,
        send_call: Callable[[AppendCall], None],
        *,
        take_apart: TakeApart,
        settings: ProducerSettings,
        clock: Clock,
    ) -> None:
        """Start with nothing to send.

        ``send_call`` sends a call, and gives it back when it is over. ``take_apart`` turns a bundle
        into batches, when it must not be sent as one. With two calls in flight or more, small calls
        overlap as well as large ones.
        """
        self.broker_name = broker_name
        self._send_call = send_call
        self._take_apart = take_apart
        self._clock = clock
        self._calls_in_flight_max = settings.calls_in_flight_max
        self._large_calls_in_flight_max = settings.large_calls_in_flight_max
        self._request_bytes_max = settings.request_bytes_max
        # Whether batches for one queue must be sent in order, even if they are not pinned.
        self._sequenced = settings.idempotent
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[SendBatch] = deque()
        self._bundles = WaitingBundles()
        self._queues_in_flight: set[MessageQueue] = set()
        self._calls_in_flight = 0
        self._messages_in_flight = 0
        self._batches_in_flight = 0
        self._outstanding = 0
        self._staggered = StaggeredCalls()
        self._may_overlap = settings.large_calls_in_flight_max >= OVERLAP_CALLS_MAX
        self._closed = False
        self._sending_soon: asyncio.Handle | None = None
        self._wake_up: asyncio.TimerHandle | None = None
        self.cut_count = NEVER_CUT
        self.answers_late = False

    @property
    def idle(self) -> bool:
        """Whether a new batch would be sent at once."""
        return self._calls_in_flight < self._calls_in_flight_max

    @property
    def bundling(self) -> bool:
        """Whether plain messages should be bundled."""
        return self._bundles.wanted

    def joinable(self, size_bytes_max: int) -> Bundle | None:
        """Return a bundle of at most this size that takes another topic, or None."""
        return self._bundles.joinable(size_bytes_max)

    def add_bundle(self, bundle: Bundle) -> None:
        """Add a new bundle to the waiting ones."""
        self._bundles.add(bundle)
        self._send_soon()

    def add(self, batch: SendBatch) -> None:
        """Add a new batch to the waiting ones."""
        self._waiting.append(batch)
        self._send_soon()

    def add_again(self, batches: Sequence[SendBatch]) -> None:
        """Add batches that are sent once more, before all newer ones.

        Movable batches are added behind pinned ones. In front of a batch that is repeated under its
        sequence numbers, a movable one would take the next numbers of the queue, and the broker
        would refuse both.
        """
        staying = [batch for batch in batches if not batch.movable]
        while self._waiting and not self._waiting[0].movable:
            staying.append(self._waiting.popleft())
        self._waiting.extendleft(reversed([batch for batch in batches if batch.movable]))
        self._waiting.extendleft(reversed(staying))
        self._send_soon()

    def give_up_movable(self) -> list[SendBatch]:
        """Take away the waiting batches that can go to another broker."""
        for bundle in self._bundles.give_up():
            self._waiting.extend(self._take_apart(bundle))
        movable = [batch for batch in self._waiting if batch.movable]
        self._waiting = deque(batch for batch in self._waiting if not batch.movable)
        return movable

    def look_again(self) -> None:
        """Send batches that may now be sent earlier than planned."""
        self._send_soon()

    def take_out(self, batches: Collection[SendBatch]) -> None:
        """Remove batches that wait here."""
        self._waiting = deque(batch for batch in self._waiting if batch not in batches)
        self._send_soon()  # Other batches may have waited behind them.

    def close(self) -> None:
        """Send nothing from now on."""
        self._closed = True
        for handle in (self._sending_soon, self._wake_up):
            if handle is not None:
                handle.cancel()

    def _send_soon(self) -> None:
        # At the end of this turn of the loop, so that all its sends share the call.
        if self._sending_soon is None and not self._closed:
            self._sending_soon = self._loop.call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        self._sending_soon = None
        self._plan()
        while self._send_oldest() if self._bundles.line else self._send_batches():
            pass

    def _send_oldest(self) -> bool:
        """Send the oldest batches that may be sent; returns whether anything was sent."""
        if self._bundles.line and not self._has_older_batch(self._bundles.first):
            return self._send_bundle() or self._send_batches()
        return self._send_batches() or self._send_bundle()

    def _has_older_batch(self, bundle: Bundle) -> bool:
        """Whether a batch that may be sent has waited longer than a bundle."""
        now_s = self._clock.monotonic_s()
        return any(
            batch.deadline_s <= bundle.deadline_s
            and batch.not_before_s <= now_s
            and not (self._is_in_order(batch) and batch.queue in self._queues_in_flight)
            for batch in self._waiting
        )

    def _send_batches(self) -> bool:
        if not self._waiting or not self._may_send():
            return False
        batches = self._take(self._limits_of_call())
        if batches:
            queues = {batch.queue for batch in batches if self._is_in_order(batch)}
            count = sum(batch.count for batch in batches)
            self._send(
                AppendCall(self.broker_name, self._over, batches, None, queues, count, len(batches))
            )
        return bool(batches)

    def _send_bundle(self) -> bool:
        calls_max = STAGGERED_CALLS_MAX
        if not self._staggered.active:
            # As many as are made meanwhile: with fewer, the bundle would never be sent.
            calls_max = max(calls_max, self._calls_in_flight_max, self._large_calls_in_flight_max)
        if not self._is_bundle_ready() or self._calls_in_flight >= calls_max:
            return False
        # No other batch may go to the queue of one that is repeated under its numbers.
        held = {each.queue for each in self._waiting if each.sequence is not None}
        in_flight = self._queues_in_flight if self._sequenced else _NO_QUEUES
        bundle = self._bundles.take_first(in_flight, len(self._waiting))
        if bundle is None:
            return False
        if not held.isdisjoint(bundle.queues):
            self.add_again(self._take_apart(bundle))
            return True
        queues = set(bundle.queues) if self._sequenced else set()
        count, row_count = bundle.count, len(bundle.queues)
        self._staggered.sent(row_count, count, bundle.size_bytes)
        self._send(AppendCall(self.broker_name, self._over, (), bundle, queues, count, row_count))
        return True

    def _is_bundle_ready(self) -> bool:
        """Whether a bundle takes no more messages and its queues are free."""
        return bool(self._bundles.line) and (
            not self._calls_in_flight or self._bundles.is_first_full
        )

    def _send(self, call: AppendCall) -> None:
        """Send a call, and hold its queues while it is in flight."""
        self._queues_in_flight |= call.queues
        self._calls_in_flight += 1
        self._messages_in_flight += call.message_count
        self._batches_in_flight += call.batch_count
        self._send_call(call)

    def _may_send(self) -> bool:
        """Whether waiting batches are sent now; otherwise they go on growing."""
        if self._staggered.active:
            return self._calls_in_flight < STAGGERED_CALLS_MAX
        if self.idle:
            return True
        if self._calls_in_flight >= self._large_calls_in_flight_max:
            return False
        size_bytes = count = batch_count = 0
        for batch in self._waiting:
            if self._is_in_order(batch) and batch.queue in self._queues_in_flight:
                continue
            size_bytes += batch.wire_bytes
            count += batch.count
            batch_count += 1
            if size_bytes >= LARGE_CALL_BYTES:
                return True
        return (
            self._may_overlap
            and not self.answers_late
            and self._calls_in_flight < OVERLAP_CALLS_MAX
            and count >= self._messages_in_flight // 2
            and is_worth_a_call(count, batch_count)
        )

    def _plan(self) -> None:
        """Decide whether batches are sent in turns, and where those of the next turn are cut."""
        if not self._may_overlap:
            return
        bundles = self._bundles
        outstanding = self._messages_in_flight + sum(batch.count for batch in self._waiting)
        others = self._batches_in_flight
        if bundles.line:
            outstanding += bundles.count
            others += bundles.row_count
        if self._staggered.active or len(self._waiting) >= STAGGERED_BATCHES_MIN:
            if self.answers_late:
                self._staggered.stop()
            else:
                self._staggered.plan(self._waiting, others, outstanding)
        if self._staggered.active or bundles.wanted:
            bundles.plan(len(self._waiting) + others, tiny=self._staggered.active)
        # This misses senders that just got an answer and have not sent again yet.
        self._outstanding = max(outstanding, self._outstanding - self._outstanding // 8)
        half = (self._outstanding + 1) // 2
        is_cut = half >= OVERLAP_COUNT_MIN and not self.answers_late
        self.cut_count = half if is_cut else NEVER_CUT

    def _limits_of_call(self) -> CallLimits:
        """The limits of the next call."""
        if self._staggered.active:
            return self._staggered.limits(len(self._waiting))
        if self._calls_in_flight or self.cut_count == NEVER_CUT:
            return EVERYTHING  # Too few messages for two calls.
        count = sum(batch.count for batch in self._waiting)
        half = (count + 1) // 2
        if is_worth_a_call(half, len(self._waiting) // 2):
            return CallLimits(half, 0)
        return EVERYTHING

    def _is_in_order(self, batch: SendBatch) -> bool:
        """Whether the batch's queue may have only one such batch in flight."""
        return batch.pinned or self._sequenced

    def _take(self, limits: CallLimits) -> list[SendBatch]:
        """Take the batches of the next call; of an ordered queue at most one is in flight."""
        now_s = self._clock.monotonic_s()
        held_queues = set(self._queues_in_flight)
        awaited_queues, awaited_since_s = self._awaited_queues()
        taken: list[SendBatch] = []
        held: list[SendBatch] = []
        size_bytes = count = 0
        next_s = float("inf")
        while self._waiting:
            batch = self._waiting.popleft()
            if batch.settled:  # All its messages were withdrawn.
                continue
            not_before_s = batch.not_before_s
            early = not_before_s > now_s
            if early:
                next_s = min(next_s, not_before_s)
            in_order = self._is_in_order(batch)
            is_held = in_order and batch.queue in held_queues
            if batch.queue in awaited_queues and batch.sequence is None:
                is_held |= batch.deadline_s > awaited_since_s
            if early or is_held:
                held.append(batch)
                # A pinned batch keeps its place in its queue's order.
                in_order = not batch.movable
            elif (
                (count >= limits.message_count and len(taken) >= limits.batch_count)
                or len(taken) == BATCHES_PER_CALL_MAX
                or (taken and size_bytes + batch.wire_bytes > self._request_bytes_max)
            ):
                self._waiting.appendleft(batch)
                break
            else:
                batch.open = False
                taken.append(batch)
                size_bytes += batch.wire_bytes
                count += batch.count
            if in_order:
                held_queues.add(batch.queue)
        self._waiting.extendleft(reversed(held))
        if self._staggered.active:
            self._staggered.sent(len(taken), count, size_bytes)
        self._wake_up_at(next_s, now_s)
        return taken

    def _awaited_queues(self) -> tuple[AbstractSet[MessageQueue], float]:
        """Return the queues for which the first bundle waits, and its deadline.

        A batch for one of these queues waits as well if its own deadline is later. Otherwise such
        batches could be sent one after the other, and the bundle would never find its queues free.
        """
        if not self._bundles.line or not self._sequenced or not self._is_bundle_ready():
            return _NO_QUEUES, 0.0
        return set(self._bundles.first.queues), self._bundles.first.deadline_s

    def _wake_up_at(self, next_s: float, now_s: float) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if next_s < float("inf"):
            self._wake_up = self._loop.call_later(next_s - now_s, self._send_soon)

    def _over(self, call: AppendCall) -> None:
        """End a call. Senders that got their outcome send again before the next call is made."""
        self._calls_in_flight -= 1
        self._messages_in_flight -= call.message_count
        self._batches_in_flight -= call.batch_count
        self._queues_in_flight -= call.queues
        if call.answers_late is not None:
            self.answers_late = call.answers_late
        self._send_soon()
