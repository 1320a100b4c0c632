"""What becomes of batches that were not acknowledged.

What is repeated, and where:

* What was surely not stored is repeated until its time is up. So is what may have been stored, in
  the same queue under the same numbers, for the broker stores it once. Without such numbers it is
  repeated a few times only, because each repeat may store it twice.
* A batch that any queue will do for, and that is surely not stored, goes to another broker at once,
  as long as there is one that has not refused it in this round; when all have, it waits a growing
  while before the next round.
* A batch that must stay in its queue waits likewise and tries that again, and everything behind it
  in that queue waits too.
* So does one that its message groups brought to a queue that is gone; but it moves when the route
  says so (``group_moves``).
* "Stored but not confirmed" is repeated only under numbers: otherwise it would surely be stored
  twice.
* When time is up for a batch that may be stored, the stream of its queue begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from ariane_sdk.errors import ArianeError, CallError, ServiceUnavailable
from ariane_sdk.net.backoff import backoff_s
from ariane_sdk.net.status import ROUTING_REASONS
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_streams import QueueStreams
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

if TYPE_CHECKING:
    from ariane_sdk.producer.sending.broker_sender import BrokerSender

REPEATED_REASONS: Final = ROUTING_REASONS | {"DEADLINE_PASSED"}
"""Nothing was stored, and another broker, or the same with a fresh route, may do better."""

COUNTED_REASONS: Final = ROUTING_REASONS - {"BROKER_NOT_PRIMARY"} | {"SEQUENCE_GAP"}
"""Repeats after these are few: if one changes nothing, many will not."""

GONE_REASONS: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_WRITABLE"})
"""Nobody can write to the queue any more."""

UNCONFIRMED_REASONS: Final = frozenset({"FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED"})
"""It is stored, and a repeat under the same numbers tells how safely."""

SEQUENCE_GAP: Final = "SEQUENCE_GAP"


class Repeats:
    """Sends refused batches again, or has them fail.

    Attributes:
        take_over: Says whether it takes out a batch that was refused because its queue is gone, now
            or when no other one of its topic is in flight.
    """

    def __init__(
        self,
        senders: Mapping[str, BrokerSender],
        routes: Routes,
        unsettled: Unsettled,
        *,
        streams: QueueStreams | None,
        latencies: BrokerLatencies,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self._senders = senders
        self._routes = routes
        self._unsettled = unsettled
        self._streams = streams
        self._latencies = latencies
        self._settings = settings
        self._clock = clock
        self._random = random
        self._repeats_max = settings.repeats_max
        # Whether a batch that may be stored is repeated under numbers.
        self._sequenced = settings.idempotent
        self.take_over: Callable[[SendBatch], bool] = lambda _: False

    def is_welcome(self, broker_name: str) -> bool:
        """Whether a batch for this broker would be sent at once, with some hope."""
        return self._senders[broker_name].idle and self._latencies.is_available(broker_name)

    async def take(
        self, broker_name: str, refused: Sequence[tuple[SendBatch, CallError]], *, lost: bool
    ) -> None:
        """Repeat what may be repeated of a call.

        Args:
            broker_name: Where it was sent.
            refused: Batches that were not acknowledged, each with the reason.
            lost: Whether the broker gave no answer: others should not run into the same.
        """
        if lost:
            self._latencies.failed(broker_name)
            given_up = self._senders[broker_name].give_up_movable()
            given_up = [batch for batch in given_up if batch in self._unsettled]
            # Who waits for a next round has chosen this broker knowing that it refuses.
            self._add_again(
                batch
                for batch in given_up
                if batch.failed_rounds or self._choose(batch, self.is_welcome)
            )
        for batch, error in refused:
            self._note(batch, error)
        misled = {
            batch.topic
            for batch, error in refused
            if error.reason in ROUTING_REASONS or isinstance(error, ServiceUnavailable)
        }
        # Should nobody know better, the next try will tell.
        await asyncio.gather(*map(self._routes.reconsider, misled))
        # Those that were taken out meanwhile have gone elsewhere.
        again = [batch for batch, error in refused if self._is_repeated(broker_name, batch, error)]
        self._add_again(batch for batch in again if batch in self._unsettled)
        self._unsettled.tell_landed({batch.topic for batch, _ in refused})

    def _is_repeated(self, broker_name: str, batch: SendBatch, error: CallError) -> bool:
        """Whether a batch is sent again; it fails otherwise, unless somebody takes it over."""
        if self._is_taken_over(batch, error):
            return False
        if not self._may_repeat(batch, error):
            self._unsettled.fail(batch, error)
            return False
        batch.repeat_count += self._is_counted(batch, error)
        until_s = self._clock.monotonic_s() + error.retry_after_s
        batch.refused_until_s = {**batch.refused_until_s, broker_name: until_s}
        # A stream that was forgotten begins anew where it was; others may be forgotten, too.
        goes_anywhere = batch.movable and error.reason != SEQUENCE_GAP
        return (self._redirect if goes_anywhere else self._begin_round)(batch, error)

    def _is_taken_over(self, batch: SendBatch, error: CallError) -> bool:
        """Whether a refused batch has its outcome, or moves to another queue with its groups."""
        if batch not in self._unsettled:
            return True
        if error.reason not in GONE_REASONS or not self.take_over(batch):
            return False
        if batch in self._unsettled:
            # Nothing behind it may be sent before it is taken out, or released.
            self._unsettled.held.add(batch)
            batch.not_before_s = batch.deadline_s
            self._senders[batch.queue.broker_name].add_again([batch])
        return True

    def _may_repeat(self, batch: SendBatch, error: CallError) -> bool:
        """Whether a batch is sent again after an error, as long as it has time."""
        may = error.retriable or error.reason in REPEATED_REASONS
        if self._sequenced:
            may |= error.reason in UNCONFIRMED_REASONS
            may |= error.reason == SEQUENCE_GAP and not batch.maybe_stored
        return may and (
            not self._is_counted(batch, error) or batch.repeat_count < self._repeats_max
        )

    def _is_counted(self, batch: SendBatch, error: CallError) -> bool:
        """Whether repeats after this error are few: they store twice, or they change nothing."""
        if error.reason in GONE_REASONS and (batch.movable or isinstance(batch, GroupedBatch)):
            route = self._routes.cached(batch.topic)
            if route is not None and batch.queue in route.write_queues:
                return False  # The route will change, and the batch go where that says.
        if error.outcome_unknown and not self._sequenced:
            return True
        if error.reason in ROUTING_REASONS and self._routes.is_asking(batch.topic):
            return False  # It may change something, once name servers have answered.
        return error.reason in COUNTED_REASONS

    def _is_surely_missing(self, error: CallError, age_s: float) -> bool:
        """Whether the broker says that no call has stored a batch."""
        if error.reason != SEQUENCE_GAP:
            return False
        if int(error.metadata.get("expected", 0)):
            return True  # The broker knows the stream, and the batch is not in it.
        # A stream that is not known has stored nothing for so long. A second is for clocks that
        # do not run alike.
        return age_s + 1.0 < int(error.metadata.get("known_for_ms", 0)) / 1000

    def _note(self, batch: SendBatch, error: CallError) -> None:
        """Remember what a call may have done; numbers surely not used are free again."""
        batch.in_flight = False
        batch.last_refusal = error
        batch.maybe_stored |= error.outcome_unknown
        begun_s = batch.deadline_s - self._settings.send_timeout_s
        if self._is_surely_missing(error, self._clock.monotonic_s() - begun_s):
            batch.maybe_stored = False
        if batch.maybe_stored or batch.sequence is None or self._streams is None:
            return
        if error.reason == SEQUENCE_GAP:
            self._streams.begin_anew(batch.queue, batch.sequence)
        else:
            self._streams.give_back(batch.queue, batch.sequence)
        batch.sequence = None

    def _add_again(self, batches: Iterable[SendBatch]) -> None:
        """Have batches sent once more, each to its broker, in their order."""
        of_brokers: dict[str, list[SendBatch]] = {}
        for batch in batches:
            of_brokers.setdefault(batch.queue.broker_name, []).append(batch)
        for broker_name, own in of_brokers.items():
            self._senders[broker_name].add_again(own)

    def _redirect(self, batch: SendBatch, error: CallError) -> bool:
        """Send a refused batch elsewhere, at once while somebody has not refused it yet, or fail.

        Returns:
            Whether it is sent again.
        """
        refused_s = batch.refused_until_s

        def is_fresh(broker_name: str) -> bool:
            return broker_name not in refused_s

        def is_soonest(broker_name: str) -> bool:
            return refused_s.get(broker_name) == min(refused_s.values())

        if not self._choose(batch, lambda name: is_fresh(name) and self.is_welcome(name)):
            return False
        if not is_fresh(batch.queue.broker_name):
            self._choose(batch, is_fresh)
        if is_fresh(batch.queue.broker_name):
            batch.not_before_s = 0.0
            return True
        self._choose(batch, is_soonest)
        return self._begin_round(batch, error)

    def _begin_round(self, batch: SendBatch, error: CallError) -> bool:
        """Have a batch wait before its next round, or fail when its time would be up by then."""
        settings = self._settings
        bound_s = backoff_s(
            batch.failed_rounds, settings.repeat_delay_s_min, settings.repeat_delay_s_max
        )
        delay_s = bound_s * self._random.uniform(0.5, 1.0)
        batch.wait_a_round(self._clock.monotonic_s() + delay_s)
        if batch.not_before_s < batch.deadline_s:
            return True
        self._unsettled.fail(batch, error)
        return False

    def _choose(self, batch: SendBatch, is_wanted: Callable[[str], bool]) -> bool:
        """Choose where an unpinned batch goes next; it fails when nobody takes its topic."""
        try:
            batch.go_elsewhere(is_wanted)
        except ArianeError as error:
            self._unsettled.fail(batch, CallError(str(error), reason=error.reason, retriable=True))
            return False
        return True
