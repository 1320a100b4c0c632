"""Calls that append: their batches are sent together, and settled when the answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendRecordsResponse, AppendResult
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_record.layout import ByteBuffer
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.bundle_wire import joined_parts, table_results
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.sent_in import trace_parents_of
from ariane_sdk.producer.batches.singles_batch import encode_together
from ariane_sdk.producer.sending.append_wire import request_parts
from ariane_sdk.producer.sending.broker_sender import AppendCall
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.settings import ProducerSettings

CALL_TIMEOUT_S_MIN: Final = 0.05

JOINED_BATCHES_MIN: Final = 8
"""From this many batches on a request is a table, which a broker stores at once."""

JOINED_BATCH_BYTES_MAX: Final = 32 << 10
"""With more bytes per batch on average, the bytes are the main cost; then no table is made."""


class AppendCalls:
    """Sends calls, and settles their batches."""

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        unsettled: Unsettled,
        repeats: Repeats,
        *,
        sequences: QueueSequences | None,
        latencies: BrokerLatencies,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._routes = routes.known
        self._unsettled = unsettled
        self._repeats = repeats
        self._sequences = sequences
        self._latencies = latencies
        self._group = group
        self._settings = settings
        self._clock = clock
        self._in_flight: dict[Call[AppendRecordsResponse], None] = {}
        self._closed = False
        self._finishing: dict[asyncio.Task[None], None] = {}

    def send(self, call: AppendCall) -> None:
        """Send a call; in any case each of its batches gets an outcome or is sent again."""
        try:
            bundle = call.bundle
            sent = self._send_batches(call) if bundle is None else self._send_bundle(call, bundle)
        except Exception as error:  # noqa: BLE001 - waiting senders need every error.
            self._lose(call, error)
            sent = False
        if not sent:
            self._finish(call)

    async def close(self) -> None:
        """End all calls; batches in flight may have been stored."""
        self._closed = True
        for appending in list(self._in_flight):
            appending.cancel()
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)

    def _send_bundle(self, call: AppendCall, bundle: Bundle) -> bool:
        """Send a bundle; if it cannot be sent as one, its batches go on alone."""
        call.begun_s = self._clock.monotonic_s()
        address = self._address(call.broker_name, (queue.topic for queue in bundle.queues))
        if not bundle.count or not address or bundle.deadline_s <= call.begun_s:
            self._take_apart(call)
            return bool(call.batches) and self._send_batches(call)
        self._write(call, address, bundle.to_wire(self._group, self._sequences), bundle.deadline_s)
        return True

    def _send_batches(self, call: AppendCall) -> bool:
        """Send batches; returns whether an answer is to come."""
        now_s = call.begun_s = self._clock.monotonic_s()
        if min([batch.deadline_s for batch in call.batches]) <= now_s:
            call.batches = self._in_time(call.batches, now_s)
            if not call.batches:
                return False
        # An old batch must not end the call of younger ones: those behind them would be as old by
        # the time of their call, and so on for good.
        deadline_s = max([batch.deadline_s for batch in call.batches])
        address = self._address(call.broker_name, [batch.topic for batch in call.batches])
        if not address:
            text = f"broker {call.broker_name}: nobody knows where it is"
            call.refuse_all(ServiceUnavailable(text, reason="BROKER_NOT_PRIMARY"))
            return False
        for batch in call.batches:
            if self._sequences is not None and batch.sequence is None:
                batch.sequence = self._sequences.take(batch.queue, batch.count)
            batch.in_flight = True
        encode_together(call.batches)
        self._write(call, address, self._parts_of(call.batches), deadline_s)
        return True

    def _parts_of(self, batches: Sequence[SendBatch]) -> list[ByteBuffer]:
        """Encode the request of batches; many small ones become a table."""
        traced = any(batch.sent_in for batch in batches)
        trace_parents = trace_parents_of(batches) if traced else ()
        if (
            len(batches) < JOINED_BATCHES_MIN
            or not all(batch.fits_table for batch in batches)
            or sum([batch.size_bytes for batch in batches]) > len(batches) * JOINED_BATCH_BYTES_MAX
        ):
            encoded = [batch.to_wire() for batch in batches]
            return request_parts(self._group, encoded, trace_parents)
        queues = [batch.queue for batch in batches]
        sequences = [batch.sequence for batch in batches if batch.sequence is not None]
        blocks = [batch.seal() for batch in batches]
        return joined_parts(self._group, queues, blocks, sequences, trace_parents)

    def _in_time(self, batches: Sequence[SendBatch], now_s: float) -> list[SendBatch]:
        """Return the batches with time left; the others fail."""
        in_time: list[SendBatch] = []
        for batch in batches:
            if batch.deadline_s > now_s:
                in_time.append(batch)
            else:
                late = DeadlinePassed("its time was up before it was sent", retriable=True)
                self._unsettled.fail(batch, batch.last_refusal or late)
        return in_time

    def _address(self, broker_name: str, topics: Iterable[str]) -> str:
        """Look up the address of a broker in the routes of these topics; "" if no route has it."""
        for topic in topics:
            route = self._routes.get(topic)
            address = route.primary_addresses.get(broker_name) if route is not None else None
            if address:
                return address
        return ""

    def _write(
        self, call: AppendCall, address: str, parts: Sequence[ByteBuffer], deadline_s: float
    ) -> None:
        """Send a request.

        Raises:
            ClientForked: The client was made in a parent process.
        """
        call.peer = f"broker {call.broker_name} at {address}"
        left_s = min(deadline_s - call.begun_s, self._settings.call_timeout_s)
        appending = self._connections.append_records(
            address, b"".join(parts), max(CALL_TIMEOUT_S_MIN, left_s)
        )
        self._in_flight[appending] = None
        appending.add_done_callback(partial(self._answered, call, address))

    def _answered(
        self,
        call: AppendCall,
        address: str,
        appending: Call[AppendRecordsResponse],
    ) -> None:
        """Settle the batches that were stored; have the others repeated or fail."""
        if self._closed:
            return
        self._in_flight.pop(appending, None)
        answer: AppendRecordsResponse | CallError
        try:
            answer = appending.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - as above.
            answer = failure_of(error, call.peer)
        try:
            self._settle(call, address, answer)
        except Exception as error:  # noqa: BLE001 - as above.
            self._lose(call, error)
        self._finish(call)

    def _settle(
        self, call: AppendCall, address: str, answer: AppendRecordsResponse | CallError
    ) -> None:
        if isinstance(answer, CallError):
            self._take_apart(call)
            call.refuse_all(answer)
        elif call.bundle is None or answer.table_result.rows:
            # A bundle whose rows differ is treated as if its batches had been sent alone.
            self._take_apart(call)
            results: Sequence[AppendResult] = answer.results
            if answer.HasField("table_result"):
                results = table_results(answer.table_result, len(call.batches))
            for batch, result in zip(call.batches, results, strict=True):
                if result.HasField("error"):
                    call.refused.append((batch, error_from_status(result.error, peer=call.peer)))
                else:
                    size_bytes = batch.size_bytes
                    batch.settle(result, address)
                    self._unsettled.forget(batch, size_bytes)
            self._heard(call, results[-1].acknowledged_level)
        else:
            call.bundle.settle(answer.table_result, address)
            self._unsettled.bundle_stored(call.bundle)
            self._heard(call, answer.table_result.acknowledged_level)

    def _heard(self, call: AppendCall, level: int) -> None:
        """Note that a broker has answered, and the level of its answer."""
        call.answers_late = level > ACKNOWLEDGED_LEVEL_MEMORY
        if self._latencies.counts_all or call.broker_name in self._latencies.left_alone:
            latency_s = self._clock.monotonic_s() - call.begun_s
            self._latencies.answered(call.broker_name, latency_s)

    def _take_apart(self, call: AppendCall) -> None:
        """Replace the bundle by its batches."""
        if call.bundle is not None:
            call.batches = self._unsettled.take_apart(call.bundle)
            call.bundle = None

    def _lose(self, call: AppendCall, error: Exception) -> None:
        """Give up batches without an outcome, after an unexpected error."""
        self._take_apart(call)
        call.refused = []
        self._unsettled.lose(call.broker_name, call.batches, error)

    def _finish(self, call: AppendCall) -> None:
        """Give the call back, after a task has decided what is repeated."""
        if not call.refused:
            call.over(call)
            return
        task = start_task(self._repeat(call), f"repeats-{call.broker_name}")
        self._finishing[task] = None
        task.add_done_callback(self._finishing.pop)

    async def _repeat(self, call: AppendCall) -> None:
        try:
            await self._repeats.take(call.broker_name, call.refused, lost=call.lost)
        except Exception as error:  # noqa: BLE001 - as above.
            self._unsettled.lose(call.broker_name, call.batches, error)
        finally:
            call.over(call)
