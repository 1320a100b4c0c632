"""The repeats of batches that were not acknowledged.

Which batches are repeated, and where:

* A batch that was surely not stored is repeated until its time is up. A batch that may have been
stored is repeated in the same queue under the same sequence numbers, for then the broker stores it
once. Without sequence numbers it is repeated a few times only, because each repeat may store it
twice.
* A movable batch that is surely not stored goes to another broker at once, as long as there is one
that has not refused it in this round. When all have refused it, it waits before the next round,
longer each time.
* A pinned batch waits likewise and tries its queue again; all later batches of the queue wait, too.
* A batch that its message groups brought to a lost queue waits likewise, but moves when the route
says so (``group_moves``).
* After "stored but not confirmed" a batch is repeated only under sequence numbers: otherwise the
repeat would surely store it twice.
* When time is up for a batch that may be stored, the sequence of its queue begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final

from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.net.backoff import backoff_s
from ariane_sdk.net.status import ROUTING_REASONS
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.failover import misleads
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

COUNTED_REASONS: Final = ROUTING_REASONS - {"BROKER_NOT_PRIMARY"} | {"SEQUENCE_GAP"}
"""Repeats after these are few: if one changes nothing, many will not."""

GONE_REASONS: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_WRITABLE"})
"""The queue is not writable any more."""

UNCONFIRMED_REASONS: Final = frozenset({"FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED"})
"""It is stored; a repeat under the same numbers returns the level that it reached."""

SEQUENCE_GAP: Final = "SEQUENCE_GAP"


class Repeats:
    """Sends refused batches again, or makes them fail.

    Attributes:
        take_over: Asked about each refused batch: returns whether it takes the batch out, now or
            later, because the batch's queue is lost.
    """

    def __init__(
        self,
        senders: Mapping[str, BrokerSender],
        routes: Routes,
        unsettled: Unsettled,
        *,
        sequences: QueueSequences | None,
        latencies: BrokerLatencies,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self._senders = senders
        self._routes = routes
        self._unsettled = unsettled
        self._sequences = sequences
        self._latencies = latencies
        self._settings = settings
        self._clock = clock
        self._random = random
        self._repeats_max = settings.repeats_max
        # Whether batches that may be stored are repeated under sequence numbers.
        self._sequenced = settings.idempotent
        self.take_over: Callable[[SendBatch], bool] = lambda _: False

    def is_welcome(self, broker_name: str) -> bool:
        """Whether a batch for this broker would be sent at once, with a good chance."""
        return self._senders[broker_name].idle and self._latencies.is_available(broker_name)

    async def take(
        self, broker_name: str, refused: Sequence[tuple[SendBatch, CallError]], *, lost: bool
    ) -> None:
        """Repeat the batches of a call that may be repeated; the others fail.

        Args:
            broker_name: The broker that the call went to.
            refused: Batches that were not acknowledged, each with the reason.
            lost: Whether the broker gave no answer: then other batches should avoid it.
        """
        if lost:
            self._latencies.failed(broker_name)
            given_up = self._senders[broker_name].give_up_movable()
            given_up = [batch for batch in given_up if batch in self._unsettled]
            # A batch that waits for its next round has chosen this broker knowing its refusals.
            self._add_again(
                batch
                for batch in given_up
                if batch.failed_rounds or self._choose(batch, self.is_welcome)
            )
        for batch, error in refused:
            self._note(batch, error)
        misled = dict.fromkeys(batch.topic for batch, error in refused if misleads(error))
        # If no name server knows better, the next try will tell.
        await asyncio.gather(*map(self._routes.reconsider, misled))
        # Batches that were taken out meanwhile have moved to other queues.
        again = [batch for batch, error in refused if self._is_repeated(broker_name, batch, error)]
        self._add_again(batch for batch in again if batch in self._unsettled)
        self._unsettled.tell_landed(dict.fromkeys(batch.topic for batch, _ in refused))

    def _is_repeated(self, broker_name: str, batch: SendBatch, error: CallError) -> bool:
        """Whether a batch is sent again. If not, it fails or was taken over."""
        if self._is_taken_over(batch, error):
            return False
        if not self._may_repeat(batch, error):
            self._unsettled.fail(batch, error)
            return False
        batch.repeat_count += self._is_counted(batch, error)
        until_s = self._clock.monotonic_s() + error.retry_after_s
        batch.refused_until_s = {**batch.refused_until_s, broker_name: until_s}
        # A sequence that the broker forgot begins anew; it may have forgotten others, too.
        goes_anywhere = batch.movable and error.reason != SEQUENCE_GAP
        return (self._redirect if goes_anywhere else self._begin_round)(batch, error)

    def _is_taken_over(self, batch: SendBatch, error: CallError) -> bool:
        """Whether a refused batch has its outcome, or moves to another queue with its groups."""
        if batch not in self._unsettled:
            return True
        if error.reason not in GONE_REASONS or not self.take_over(batch):
            return False
        if batch in self._unsettled:
            # Later batches of the queue wait until this one is taken out or released.
            self._unsettled.held.add(batch)
            batch.not_before_s = batch.deadline_s
            self._senders[batch.queue.broker_name].add_again([batch])
        return True

    def _may_repeat(self, batch: SendBatch, error: CallError) -> bool:
        """Whether a batch with time left may be sent again after this error."""
        may = error.retriable or error.reason in ROUTING_REASONS
        if self._sequenced:
            may |= error.reason in UNCONFIRMED_REASONS
            may |= error.reason == SEQUENCE_GAP and not batch.maybe_stored
        return may and (
            not self._is_counted(batch, error) or batch.repeat_count < self._repeats_max
        )

    def _is_counted(self, batch: SendBatch, error: CallError) -> bool:
        """Whether repeats are limited in number: they may store twice, or would change nothing."""
        if error.reason in GONE_REASONS and (batch.movable or isinstance(batch, GroupedBatch)):
            route = self._routes.cached(batch.topic)
            if route is not None and batch.queue in route.write_queues:
                return False  # The route will change, and the batch will follow it.
        if error.outcome_unknown and not self._sequenced:
            return True
        if error.reason in ROUTING_REASONS and self._routes.is_asking(batch.topic):
            return False  # A repeat may succeed once name servers have answered.
        return error.reason in COUNTED_REASONS

    def _is_surely_missing(self, error: CallError, age_s: float) -> bool:
        """Whether the broker's answer proves that no call has stored the batch."""
        if error.reason != SEQUENCE_GAP:
            return False
        if int(error.metadata.get("expected", 0)):
            return True  # The broker knows the sequence, and the batch is not in it.
        # A sequence that the broker does not know has stored nothing for this long. One second more
        # allows for clocks that differ.
        return age_s + 1.0 < int(error.metadata.get("known_for_ms", 0)) / 1000

    def _note(self, batch: SendBatch, error: CallError) -> None:
        """Note what a call may have done; sequence numbers surely not used are free again."""
        batch.in_flight = False
        batch.last_refusal = error
        batch.maybe_stored |= error.outcome_unknown
        begun_s = batch.deadline_s - self._settings.send_timeout_s
        if self._is_surely_missing(error, self._clock.monotonic_s() - begun_s):
            batch.maybe_stored = False
        if batch.maybe_stored or batch.sequence is None or self._sequences is None:
            return
        if error.reason == SEQUENCE_GAP:
            self._sequences.begin_anew(batch.queue, batch.sequence)
        else:
            self._sequences.give_back(batch.queue, batch.sequence)
        batch.sequence = None

    def _add_again(self, batches: Iterable[SendBatch]) -> None:
        """Have batches sent once more, each to its broker, in their order."""
        of_brokers: dict[str, list[SendBatch]] = {}
        for batch in batches:
            of_brokers.setdefault(batch.queue.broker_name, []).append(batch)
        for broker_name, own in of_brokers.items():
            self._senders[broker_name].add_again(own)

    def _redirect(self, batch: SendBatch, error: CallError) -> bool:
        """Send a refused batch to another broker, let it wait for its next round, or fail it.

        Returns:
            Whether the batch is sent again.
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
        """Let a batch wait before its next round; it fails if its time would be up by then."""
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
        """Choose the next queue of a movable batch; it fails if no broker takes the topic."""
        try:
            batch.go_elsewhere(is_wanted)
        except ArianeError as error:
            self._unsettled.fail(batch, CallError(str(error), reason=error.reason, retriable=True))
            return False
        return True
