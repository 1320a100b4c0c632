"""Batches on their way to brokers: calls, outcomes, repeats.

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
  says so (``_group_moves``).
* "Stored but not confirmed" is repeated only under numbers: otherwise it would surely be stored
  twice.
* When time is up for a batch that may be stored, the stream of its queue begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from ariane.broker.v1.send_service_pb2 import AppendResult, AppendTableResult
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_record.layout import ByteBuffer
from ariane_sdk.errors import ArianeError, CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.backoff import backoff_s
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import ROUTING_REASONS, error_from_status
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import encode_together
from ariane_sdk.producer.sending.append_calls import Answer, AppendCalls
from ariane_sdk.producer.sending.append_wire import request_parts
from ariane_sdk.producer.sending.broker_sender import NEVER_CUT, BrokerSender, Cargo
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_streams import QueueStreams
from ariane_sdk.producer.sending.repeat_rules import GONE_REASONS, SEQUENCE_GAP, RepeatRules
from ariane_sdk.producer.sending.send_call import SendCall
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.settings import ProducerSettings

PRODUCER_ID_MAX: Final = (1 << 63) - 1

CALL_TIMEOUT_S_MIN: Final = 0.05


class Sending:
    """Everything that a producer has on its way.

    Attributes:
        unsettled: The batches that have no outcome yet.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        *,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
        bundle_settings: BundleSettings,
        settled: Callable[[int], None],
        latencies: BrokerLatencies,
    ) -> None:
        self._calls = AppendCalls(connections)
        self._routes = routes
        self._group = group
        self._settings = settings
        self._clock = clock
        self._random = random
        self._bundle_settings = bundle_settings
        self._latencies = latencies
        self._senders: dict[str, BrokerSender] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._streams: QueueStreams | None = None
        if settings.idempotent:
            self._streams = QueueStreams(random.randint(1, PRODUCER_ID_MAX))
        self._rules = RepeatRules(
            routes, repeats_max=settings.repeats_max, sequenced=settings.idempotent
        )
        self._take_over: Callable[[SendBatch], bool] | None = None
        self.unsettled = Unsettled(self._streams, settled)

    def is_welcome(self, broker_name: str) -> bool:
        """Whether a batch would leave for this broker at once, with some hope."""
        sender = self._senders.get(broker_name)
        return (sender is None or sender.idle) and self._latencies.is_available(broker_name)

    def cut_count(self, broker_name: str) -> int:
        """Messages after which a batch for this broker should take no more, if it is to overlap."""
        sender = self._senders.get(broker_name)
        return NEVER_CUT if sender is None else sender.cut_count

    def add(self, batch: SendBatch) -> None:
        """Have a batch travel, with what it has by then."""
        batch.journey.deadline_s = self._clock.monotonic_s() + self._settings.send_timeout_s
        self.unsettled.add(batch)
        self._sender(batch.queue.broker_name).add(batch)

    def bundle_for(self, broker_name: str, size_bytes_max: int) -> Bundle | None:
        """A bundle that takes plain messages of another topic; None if they should not come so.

        Args:
            broker_name: Where they go.
            size_bytes_max: Bytes that it has at most.
        """
        sender = self._senders.get(broker_name)
        if sender is None or not sender.bundling:
            return None
        bundle = sender.joinable(size_bytes_max)
        if bundle is None:
            bundle = Bundle(self._bundle_settings)
            bundle.deadline_s = self._clock.monotonic_s() + self._settings.send_timeout_s
            self.unsettled.add(bundle)
            sender.add_bundle(bundle)
        return bundle

    def on_gone(self, take_over: Callable[[SendBatch], bool]) -> None:
        """Have somebody asked about batches that were refused because their queues are gone.

        Args:
            take_over: Says whether it takes out such a batch, now or when no other one of its topic
                is in flight.
        """
        self._take_over = take_over

    def take_out(self, batches: Sequence[SendBatch]) -> None:
        """Have batches travel no more; somebody else sees to their messages.

        Args:
            batches: On their way, none of them in flight.
        """
        for sender in self._senders.values():
            sender.take_out(set(batches))
        for batch in batches:
            self.unsettled.forget(batch, batch.size_bytes)

    def release(self, batches: Iterable[SendBatch]) -> None:
        """Have batches that waited to be taken out travel on instead: they have their queues again.

        Args:
            batches: Any on their way.
        """
        for batch in self.unsettled.held.intersection(batches):
            self.unsettled.held.discard(batch)
            batch.journey.not_before_s = 0.0
            self._sender(batch.queue.broker_name).look_again()

    async def close(self) -> None:
        """Give everything up; what is in flight may have been stored."""
        for sender in self._senders.values():
            sender.close()
        self._calls.close()
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)
        self.unsettled.close()

    def _sender(self, broker_name: str) -> BrokerSender:
        sender = self._senders.get(broker_name)
        if sender is None:
            sender = self._senders[broker_name] = BrokerSender(
                broker_name,
                self._transmit,
                take_apart=self.unsettled.take_apart,
                clock=self._clock,
                calls_in_flight_max=self._settings.calls_in_flight_max,
                large_calls_in_flight_max=self._settings.large_calls_in_flight_max,
                request_bytes_max=self._settings.request_bytes_max,
                sequenced=self._settings.idempotent,
            )
        return sender

    def _transmit(self, broker_name: str, cargo: Cargo, over: Callable[[], None]) -> None:
        """Make one call, and see what became of each batch; whatever happens, all are told."""
        try:
            if isinstance(cargo, Bundle):
                self._begin_bundle(broker_name, cargo, over)
            else:
                self._begin_call(broker_name, cargo, over)
        except Exception as error:  # noqa: BLE001 - who waits must be told, whatever it is.
            batches = self.unsettled.take_apart(cargo) if isinstance(cargo, Bundle) else cargo
            self.unsettled.lose(broker_name, batches, error)
            over()

    def _begin_bundle(self, broker_name: str, bundle: Bundle, over: Callable[[], None]) -> None:
        """Have a bundle travel; what cannot leave as one goes on as single batches."""
        now_s = self._clock.monotonic_s()
        address = self._address(broker_name, (queue.topic for queue in bundle.queues))
        if not bundle.count or not address or bundle.deadline_s <= now_s:
            batches = self.unsettled.take_apart(bundle)
            if batches:
                self._begin_call(broker_name, batches, over)
            else:
                over()
            return
        parts = bundle.to_wire(self._group, self._streams)
        call = SendCall(broker_name, address, f"broker {broker_name} at {address}", (), now_s, over)
        self._send(call, parts, bundle.deadline_s, partial(self._bundle_answered, bundle, call))

    def _bundle_answered(self, bundle: Bundle, call: SendCall, answer: Answer | CallError) -> None:
        """A call with a bundle is over: if not all is well, it is as if single batches had it."""
        if not isinstance(answer, AppendTableResult):
            self._answered(call._replace(batches=self.unsettled.take_apart(bundle)), answer)
            return
        try:
            bundle.settle(answer, call.address)
        except Exception as error:  # noqa: BLE001 - as above.
            self.unsettled.lose(call.broker_name, self.unsettled.take_apart(bundle), error)
        else:
            self.unsettled.bundle_stored(bundle)
            self._heard(call, answer)
        call.over()

    def _begin_call(
        self, broker_name: str, batches: Sequence[SendBatch], over: Callable[[], None]
    ) -> None:
        now_s = self._clock.monotonic_s()
        deadline_s = _earliest_deadline_s(batches)
        if deadline_s <= now_s:
            batches = self._in_time(batches, now_s)
            if not batches:
                over()
                return
            deadline_s = _earliest_deadline_s(batches)
        address = self._address(broker_name, [batch.topic for batch in batches])
        peer = f"broker {broker_name} at {address}"
        call = SendCall(broker_name, address, peer, batches, now_s, over)
        if not address:
            unknown = ServiceUnavailable("nobody knows where it is", reason="BROKER_NOT_PRIMARY")
            self._answered(call, unknown)
            return
        for batch in batches:
            journey = batch.journey
            if self._streams is not None and journey.sequence is None:
                journey.sequence = self._streams.take(batch.queue, batch.count)
            journey.in_flight = True
        encode_together(batches)
        parts = request_parts(self._group, (batch.to_wire() for batch in batches))
        self._send(call, parts, deadline_s, partial(self._answered, call))

    def _send(
        self,
        call: SendCall,
        parts: Sequence[ByteBuffer],
        deadline_s: float,
        answered: Callable[[Answer | CallError], None],
    ) -> None:
        left_s = min(deadline_s - call.begun_s, self._settings.call_timeout_s)
        timeout_s = max(CALL_TIMEOUT_S_MIN, left_s)
        self._calls.begin(
            call.address,
            parts,
            peer=call.peer,
            timeout_s=timeout_s,
            answered=answered,
            awake_s=self._settings.busy_wait_s if call.is_lone else 0.0,
        )

    def _in_time(self, batches: Sequence[SendBatch], now_s: float) -> list[SendBatch]:
        """The batches whose time is not up; the others fail."""
        in_time: list[SendBatch] = []
        for batch in batches:
            if batch.journey.deadline_s > now_s:
                in_time.append(batch)
            else:
                late = DeadlinePassed("its time was up before it left", retriable=True)
                self.unsettled.fail(batch, batch.journey.last_refusal or late)
        return in_time

    def _answered(self, call: SendCall, answer: Answer | CallError) -> None:
        """A call is over: tell who waits, or see in a task what may be repeated."""
        try:
            work = self._after_call(call, answer)
        except Exception as error:  # noqa: BLE001 - as above.
            self.unsettled.lose(call.broker_name, call.batches, error)
            work = None
        if work is None:
            call.over()
            return
        task = start_task(self._finish(call, work), f"repeats-{call.broker_name}")
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def _after_call(
        self, call: SendCall, answer: Answer | CallError
    ) -> Coroutine[Any, Any, None] | None:
        """Settle what was stored; what is to be done about the rest."""
        broker_name = call.broker_name
        if isinstance(answer, CallError):
            return self._failed_whole(broker_name, call.batches, answer)
        if isinstance(answer, AppendTableResult):
            raise ValueError("batches were answered as a table")  # noqa: TRY004 - the broker did.
        failed: list[tuple[SendBatch, CallError]] = []
        for batch, result in zip(call.batches, answer, strict=True):
            if result.HasField("error"):
                failed.append((batch, error_from_status(result.error, peer=call.peer)))
            else:
                size_bytes = batch.size_bytes
                batch.settle(result, call.address)
                self.unsettled.forget(batch, size_bytes)
        self._heard(call, answer[-1])
        return self._after_failure(broker_name, failed) if failed else None

    def _heard(self, call: SendCall, last: AppendResult | AppendTableResult) -> None:
        """A broker has answered a call."""
        self._latencies.answered(call.broker_name, self._clock.monotonic_s() - call.begun_s)
        level = last.acknowledged_level
        self._sender(call.broker_name).answers_late = level > ACKNOWLEDGED_LEVEL_MEMORY

    async def _finish(self, call: SendCall, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - as above.
            self.unsettled.lose(call.broker_name, call.batches, error)
        finally:
            call.over()

    async def _failed_whole(
        self, broker_name: str, batches: Sequence[SendBatch], error: CallError
    ) -> None:
        """A call failed as a whole: others should not run into the same."""
        if isinstance(error, ServiceUnavailable | DeadlinePassed):
            self._latencies.failed(broker_name)
            given_up = self._sender(broker_name).give_up_movable()
            given_up = [batch for batch in given_up if batch in self.unsettled]
            # Who waits for a next round has chosen this broker knowing that it refuses.
            self._add_again(
                batch
                for batch in given_up
                if batch.journey.failed_rounds or self._choose(batch, self.is_welcome)
            )
        await self._after_failure(broker_name, [(batch, error) for batch in batches])

    async def _after_failure(
        self, broker_name: str, failed: Sequence[tuple[SendBatch, CallError]]
    ) -> None:
        """Repeat what may be repeated."""
        for batch, error in failed:
            self._note(batch, error)
        misled = {
            batch.topic
            for batch, error in failed
            if error.reason in ROUTING_REASONS or isinstance(error, ServiceUnavailable)
        }
        # Should nobody know better, the next try will tell.
        await asyncio.gather(*map(self._routes.reconsider, misled))
        again: list[SendBatch] = []
        for batch, error in failed:
            journey = batch.journey
            if self._is_taken_over(batch, error):
                continue
            if not self._rules.may_repeat(batch, error):
                self.unsettled.fail(batch, error)
                continue
            journey.repeat_count += self._rules.is_counted(batch, error)
            until_s = self._clock.monotonic_s() + error.retry_after_s
            journey.refused_until_s[broker_name] = until_s
            # A stream that was forgotten begins anew where it was; others may be forgotten, too.
            goes_anywhere = batch.movable and error.reason != SEQUENCE_GAP
            travel_on = self._redirect if goes_anywhere else self._begin_round
            if travel_on(batch, error):
                again.append(batch)
        # Those that were taken out meanwhile have gone elsewhere.
        self._add_again(batch for batch in again if batch in self.unsettled)
        self.unsettled.tell_landed({batch.topic for batch, _ in failed})

    def _is_taken_over(self, batch: SendBatch, error: CallError) -> bool:
        """Whether somebody takes a refused batch out, or has done so."""
        if batch not in self.unsettled:
            return True
        if error.reason not in GONE_REASONS or self._take_over is None:
            return False
        if not self._take_over(batch):
            return False
        if batch in self.unsettled:
            # Nothing behind it may leave before it is taken out, or released.
            self.unsettled.held.add(batch)
            batch.journey.not_before_s = batch.journey.deadline_s
            self._sender(batch.queue.broker_name).add_again([batch])
        return True

    def _note(self, batch: SendBatch, error: CallError) -> None:
        """Remember what a travel may have done; numbers surely not used are free again."""
        journey = batch.journey
        journey.in_flight = False
        journey.last_refusal = error
        journey.maybe_stored |= error.outcome_unknown
        begun_s = journey.deadline_s - self._settings.send_timeout_s
        if self._rules.is_surely_missing(error, self._clock.monotonic_s() - begun_s):
            journey.maybe_stored = False
        if journey.maybe_stored or journey.sequence is None or self._streams is None:
            return
        if error.reason == SEQUENCE_GAP:
            self._streams.begin_anew(batch.queue, journey.sequence)
        else:
            self._streams.give_back(batch.queue, journey.sequence)
        journey.sequence = None

    def _add_again(self, batches: Iterable[SendBatch]) -> None:
        """Have batches travel once more, each to its broker, in their order."""
        of_brokers: dict[str, list[SendBatch]] = {}
        for batch in batches:
            of_brokers.setdefault(batch.queue.broker_name, []).append(batch)
        for broker_name, own in of_brokers.items():
            self._sender(broker_name).add_again(own)

    def _redirect(self, batch: SendBatch, error: CallError) -> bool:
        """Have a refused batch travel on, at once while somebody has not refused it yet, or fail.

        Returns:
            Whether it travels on.
        """
        refused_s = batch.journey.refused_until_s

        def is_fresh(broker_name: str) -> bool:
            return broker_name not in refused_s

        def is_soonest(broker_name: str) -> bool:
            return refused_s.get(broker_name) == min(refused_s.values())

        if not self._choose(batch, lambda name: is_fresh(name) and self.is_welcome(name)):
            return False
        if not is_fresh(batch.queue.broker_name):
            self._choose(batch, is_fresh)
        if is_fresh(batch.queue.broker_name):
            batch.journey.not_before_s = 0.0
            return True
        self._choose(batch, is_soonest)
        return self._begin_round(batch, error)

    def _begin_round(self, batch: SendBatch, error: CallError) -> bool:
        """Have a batch wait before its next round, or fail when its time would be up by then."""
        journey = batch.journey
        settings = self._settings
        bound_s = backoff_s(
            journey.failed_rounds, settings.repeat_delay_s_min, settings.repeat_delay_s_max
        )
        delay_s = bound_s * self._random.uniform(0.5, 1.0)
        journey.wait_a_round(self._clock.monotonic_s(), delay_s, batch.queue.broker_name)
        if journey.not_before_s < journey.deadline_s:
            return True
        self.unsettled.fail(batch, error)
        return False

    def _choose(self, batch: SendBatch, is_wanted: Callable[[str], bool]) -> bool:
        """Choose where an unpinned batch goes next; it fails when nobody takes its topic."""
        try:
            batch.go_elsewhere(is_wanted)
        except ArianeError as error:
            self.unsettled.fail(batch, CallError(str(error), reason=error.reason, retriable=True))
            return False
        return True

    def _address(self, broker_name: str, topics: Iterable[str]) -> str:
        """Where a broker is, as the route of any of these topics says; nothing if none does."""
        for topic in topics:
            route = self._routes.cached(topic)
            broker = route.broker(broker_name) if route is not None else None
            if broker is not None and broker.primary_address:
                return broker.primary_address
        return ""


def _earliest_deadline_s(batches: Sequence[SendBatch]) -> float:
    """When the time of the first of these batches is up; of one batch at least."""
    return min([batch.journey.deadline_s for batch in batches])
