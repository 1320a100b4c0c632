"""The repeats of rows that were not acknowledged.

Which rows are repeated, and where:

* A row that was surely not stored is repeated until its time is up. A row that may have been
stored is repeated in the same queue under the same sequence numbers, or under the id of a half
message, for then the broker stores it once. Without either it is repeated a few times only, because
each repeat may store it twice.
* A movable row that is surely not stored goes to another broker at once, as long as there is one
that has not refused it in this round. When all have refused it, it waits before the next round,
longer each time.
* A pinned row waits likewise and tries its queue again; all later rows of the queue wait, too.
* A row that its message groups brought to a lost queue waits likewise, but moves when the route
says so (``group_moves``).
* After "stored but not confirmed" a row is repeated only where the broker knows a repeat: otherwise
it would surely store the row twice.
* When time is up for a row that may be stored, the sequence of its queue begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.net.backoff import backoff_s
from ariane_sdk.net.status import ROUTING_REASONS
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.sender import Sender
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.routing.failover import misleads

COUNTED_REASONS: Final = ROUTING_REASONS - {"BROKER_NOT_PRIMARY"} | {"SEQUENCE_GAP"}
"""Repeats after these are few: if one changes nothing, many will not."""

GONE_REASONS: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_WRITABLE"})
"""The queue is not writable any more."""

UNCONFIRMED_REASONS: Final = frozenset({"FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED"})
"""It is stored; a repeat under the same numbers returns the level that it reached."""

SEQUENCE_GAP: Final = "SEQUENCE_GAP"


class Repeats:
    """Sends refused rows again, or makes them fail."""

    def __init__(self, parts: ProducerParts, senders: Mapping[str, Sender]) -> None:
        self._parts = parts
        self._senders = senders
        self._routes = parts.session.routes
        self._unsettled = parts.unsettled
        self.take_over: Callable[[Row], bool] = lambda _: False
        """Called with each refused row; returns True if the row's queue is lost, so that its
        messages move to other queues now or later."""

    def is_welcome(self, broker_name: str) -> bool:
        """Whether a row for this broker would be sent at once, with a good chance."""
        return self._senders[broker_name].idle and self._parts.latencies.is_available(broker_name)

    async def take(
        self, broker_name: str, refused: Sequence[tuple[Row, CallError]], *, lost: bool
    ) -> None:
        """Repeat the rows of a call that may be repeated; the others fail.

        Args:
            broker_name: The broker that the call went to.
            refused: Rows that were not acknowledged, each with the reason.
            lost: Whether the broker gave no answer: then other rows should avoid it.
        """
        if lost:
            self._parts.latencies.failed(broker_name)
            given_up = self._senders[broker_name].accumulator.give_up_movable()
            given_up = [row for row in given_up if row in self._unsettled]
            # A row that waits for its next round has chosen this broker knowing its refusals.
            self._add_again(
                row for row in given_up if row.failed_rounds or self._choose(row, self.is_welcome)
            )
        for row, error in refused:
            self._note(row, error)
        misled = dict.fromkeys(row.topic for row, error in refused if misleads(error))
        # If no name server has another route, the next try shows whether the old one was right.
        await asyncio.gather(*map(self._routes.reconsider, misled))
        # Rows that were taken out meanwhile have moved to other queues.
        again = [row for row, error in refused if self._is_repeated(broker_name, row, error)]
        self._add_again(row for row in again if row in self._unsettled)
        self._unsettled.notify_call_end(dict.fromkeys(row.topic for row, _ in refused))

    def _is_repeated(self, broker_name: str, row: Row, error: CallError) -> bool:
        """Whether a row is sent again. If not, it fails or was taken over."""
        if self._is_taken_over(row, error):
            return False
        if not self._may_repeat(row, error):
            self._unsettled.fail(row, error)
            return False
        row.repeat_count += self._is_counted(row, error)
        until_s = self._parts.clock.monotonic_s() + error.retry_after_s
        row.refused_until_s = {**row.refused_until_s, broker_name: until_s}
        # A sequence that the broker forgot begins anew; it may have forgotten others, too.
        goes_anywhere = row.movable and error.reason != SEQUENCE_GAP
        return (self._redirect if goes_anywhere else self._begin_round)(row, error)

    def _is_taken_over(self, row: Row, error: CallError) -> bool:
        """Whether a refused row has its outcome, or moves to another queue with its groups."""
        if row not in self._unsettled:
            return True
        if error.reason not in GONE_REASONS or not self.take_over(row):
            return False
        if row in self._unsettled:
            # Later rows of the queue wait until this one is taken out or released.
            self._unsettled.held.add(row)
            row.not_before_s = row.deadline_s
            self._senders[row.queue.broker_name].accumulator.add_again([row])
        return True

    def _may_repeat(self, row: Row, error: CallError) -> bool:
        """Whether a row with time left may be sent again after this error."""
        may = error.retriable or error.reason in ROUTING_REASONS
        if row.stored_once:
            may |= error.reason in UNCONFIRMED_REASONS
            may |= error.reason == SEQUENCE_GAP and not row.maybe_stored
        if may and self._is_counted(row, error):
            return row.repeat_count < self._parts.settings.repeats_max
        return may

    def _is_counted(self, row: Row, error: CallError) -> bool:
        """Whether repeats are limited in number: they may store twice, or would change nothing."""
        if error.reason in GONE_REASONS and (row.movable or row.grouped):
            route = self._routes.cached(row.topic)
            if route is not None and row.queue in route.write_queues:
                return False  # The route will change, and the row will follow it.
        if error.outcome_unknown and not row.stored_once:
            return True
        if error.reason in ROUTING_REASONS and self._routes.is_asking(row.topic):
            return False  # A repeat may succeed once name servers have answered.
        return error.reason in COUNTED_REASONS

    def _is_surely_missing(self, error: CallError, age_s: float) -> bool:
        """Whether the broker's answer proves that no call has stored the row."""
        if error.reason != SEQUENCE_GAP:
            return False
        # One second more allows for clocks that differ.
        return age_s + 1.0 < int(error.metadata.get("known_for_ms", 0)) / 1000

    def _note(self, row: Row, error: CallError) -> None:
        """Note what a call may have done; sequence numbers surely not used are free again."""
        row.in_flight = False
        row.last_refusal = error
        row.maybe_stored |= error.outcome_unknown
        begun_s = row.deadline_s - self._parts.settings.send_timeout_s
        if self._is_surely_missing(error, self._parts.clock.monotonic_s() - begun_s):
            row.maybe_stored = False
        if not row.maybe_stored:
            self._unsettled.sequences.free(row, anew=error.reason == SEQUENCE_GAP)

    def _add_again(self, rows: Iterable[Row]) -> None:
        """Have rows sent once more, each to its broker, in their order."""
        of_brokers: dict[str, list[Row]] = {}
        for row in rows:
            of_brokers.setdefault(row.queue.broker_name, []).append(row)
        for broker_name, own in of_brokers.items():
            self._senders[broker_name].accumulator.add_again(own)

    def _redirect(self, row: Row, error: CallError) -> bool:
        """Send a refused row to another broker, let it wait for its next round, or fail it.

        Returns:
            Whether the row is sent again.
        """
        refused_s = row.refused_until_s

        def is_fresh(broker_name: str) -> bool:
            return broker_name not in refused_s

        def is_soonest(broker_name: str) -> bool:
            return refused_s.get(broker_name) == min(refused_s.values())

        if not self._choose(row, lambda name: is_fresh(name) and self.is_welcome(name)):
            return False
        if not is_fresh(row.queue.broker_name):
            self._choose(row, is_fresh)
        if is_fresh(row.queue.broker_name):
            row.not_before_s = 0.0
            return True
        self._choose(row, is_soonest)
        return self._begin_round(row, error)

    def _begin_round(self, row: Row, error: CallError) -> bool:
        """Let a row wait before its next round; it fails if its time would be up by then."""
        settings = self._parts.settings
        bound_s = backoff_s(
            row.failed_rounds, settings.repeat_delay_s_min, settings.repeat_delay_s_max
        )
        delay_s = bound_s * self._parts.random.uniform(0.5, 1.0)
        row.wait_a_round(self._parts.clock.monotonic_s() + delay_s)
        if row.not_before_s < row.deadline_s:
            return True
        self._unsettled.fail(row, error)
        return False

    def _choose(self, row: Row, is_wanted: Callable[[str], bool]) -> bool:
        """Choose another queue for a row, if possible of a wanted broker; a pinned row stays.

        Returns:
            False if no broker takes the topic: then the row fails.
        """
        try:
            if row.choose_other is not None and row.movable:
                row.queue = row.choose_other(is_wanted)
        except ArianeError as error:
            self._unsettled.fail(row, CallError(str(error), reason=error.reason, retriable=True))
            return False
        return True
