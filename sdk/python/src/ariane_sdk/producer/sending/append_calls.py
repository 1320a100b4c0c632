"""Calls that append: the rows of a call are sent together, and settled when the answer comes.

Each broker has a sender, which says when its next call leaves and what it carries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendRecordsResponse, AppendTableResult
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.row_encoder import encode_rows
from ariane_sdk.errors import DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.producer.accumulator.accumulator import ByBroker
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.sender import AppendCall, Sender
from ariane_sdk.producer.sending.table_wire import (
    keep_encoded,
    settle_rows,
    table_request,
    trace_parents_of,
)
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.routing.route import Route
from ariane_sdk.runtime.tasks import start_task

CALL_TIMEOUT_S_MIN: Final = 0.05

_deadline_of: Final = attrgetter("deadline_s")


class AppendCalls:
    """Sends all that waits, call by call, and settles the rows of each call."""

    def __init__(self, parts: ProducerParts) -> None:
        self._connections = parts.session.connections
        self._routes = parts.session.routes.known
        self.unsettled = parts.unsettled
        """The rows without an outcome."""
        self._latencies = parts.latencies
        self._unique_ids = parts.unique_ids
        self._settings = parts.settings
        self._clock = parts.clock
        self._in_flight: dict[Call[AppendRecordsResponse], None] = {}
        self._closed = False
        self._finishing: dict[asyncio.Task[None], None] = {}
        self.senders = ByBroker(self._new_sender)
        """The sender of each broker."""
        self.accumulators = ByBroker(lambda broker_name: self.senders[broker_name].accumulator)
        """The accumulator of each."""
        self._repeats = Repeats(parts, self.senders)
        self.is_welcome = self._repeats.is_welcome
        """Whether a row for a broker would be sent at once, with a good chance."""
        self._primaries: dict[str, str] = {}
        parts.session.routes.on_change(self._follow)

    def _new_sender(self, broker_name: str) -> Sender:
        return Sender(broker_name, self.send, settings=self._settings, clock=self._clock)

    def on_gone(self, take_over: Callable[[Row], bool]) -> None:
        """Set the function that is asked about rows refused because their queues are lost."""
        self._repeats.take_over = take_over

    def take_out(self, rows: Sequence[Row]) -> None:
        """Stop sending rows, none of them in flight: their messages move to other rows."""
        for sender in self.senders.values():
            sender.accumulator.take_out(set(rows))
        self.unsettled.forget_all(rows)

    def release(self, rows: Iterable[Row]) -> None:
        """Send rows that had waited to be taken out: their queues are back."""
        for row in self.unsettled.held.intersection(rows):
            self.unsettled.held.discard(row)
            self._send_at_once(row)

    def _follow(self, route: Route) -> None:
        """Send waiting rows at once where another broker has become primary."""
        for broker_name, address in route.primary_addresses.items():
            before = self._primaries.get(broker_name, address)
            self._primaries[broker_name] = address
            if address != before and broker_name in self.senders:
                for row in self.unsettled.rows:
                    if row.queue.broker_name == broker_name and row not in self.unsettled.held:
                        self._send_at_once(row)

    def _send_at_once(self, row: Row) -> None:
        row.not_before_s = 0.0
        self.senders[row.queue.broker_name].send_soon()

    def send(self, call: AppendCall) -> None:
        """Send a call; in any case each of its rows gets an outcome or is sent again."""
        try:
            sent = self._send(call)
        except Exception as error:  # noqa: BLE001 - waiting senders need every error.
            self._lose(call, error)
            sent = False
        if not sent:
            self._finish(call)

    async def close(self) -> None:
        """Give everything up; rows in flight may have been stored."""
        self._closed = True
        for sender in self.senders.values():
            sender.close()
        for appending in list(self._in_flight):
            appending.cancel()
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)
        self.unsettled.close()

    def _send(self, call: AppendCall) -> bool:
        """Send a call; returns whether an answer is to come.

        Raises:
            ClientForked: The client was made in a parent process.
        """
        now_s = call.begun_s = self._clock.monotonic_s()
        deadlines_s = list(map(_deadline_of, call.rows))
        if min(deadlines_s) <= now_s:
            call.rows = self._in_time(call.rows, now_s)
            if not call.rows:
                return False
        call.address = self._address(call.broker_name, call.rows)
        if not call.address:
            text = f"broker {call.broker_name}: nobody knows where it is"
            call.refuse_all(ServiceUnavailable(text, reason="BROKER_NOT_PRIMARY"))
            return False
        request = self._encoded(call)
        # An old row must not end the call of younger ones: those behind them would be as old by
        # the time of their call, and so on for good.
        left_s = min(max(deadlines_s) - now_s, self._settings.call_timeout_s)
        appending = self._connections.append_records(
            call.address, request, max(CALL_TIMEOUT_S_MIN, left_s)
        )
        self._in_flight[appending] = None
        appending.add_done_callback(partial(self._answered, call))
        return True

    def _encoded(self, call: AppendCall) -> bytes:
        """Encode a request: rows that are encoded already come first."""
        tables: list[RecordTable] = []
        fresh: list[Row] = []
        count, traced, number = 0, False, self.unsettled.sequences.number
        for row in call.rows:
            number(row)
            row.in_flight = True
            traced = traced or bool(row.trace_parents)
            if row.table is None:
                fresh.append(row)
                count += row.count
            else:
                tables.append(
                    row.table if row.sequence is None else row.table.with_sequence(row.sequence)
                )
        if tables:
            call.rows = [row for row in call.rows if row.table is not None] + fresh
        if fresh:
            call.unique_ids = self._unique_ids.next_ids(count)
            call.encoded = encode_rows(fresh, call.unique_ids)
            tables.append(call.encoded)
        trace_parents = trace_parents_of(call.rows) if traced else ()
        records = tables[0] if len(tables) == 1 else RecordTable.joined(tables)
        return table_request(call.rows, records, trace_parents)

    def _in_time(self, rows: Sequence[Row], now_s: float) -> list[Row]:
        """Return the rows with time left; the others fail."""
        in_time: list[Row] = []
        for row in rows:
            if row.deadline_s > now_s:
                in_time.append(row)
            else:
                late = DeadlinePassed("its time was up before it was sent", retriable=True)
                self.unsettled.fail(row, row.last_refusal or late)
        return in_time

    def _address(self, broker_name: str, rows: Iterable[Row]) -> str:
        """Look up a broker's address in the routes of these rows' topics; "" if no route has it."""
        for row in rows:
            route = self._routes.get(row.topic)
            address = route.primary_addresses.get(broker_name) if route is not None else None
            if address:
                return address
        return ""

    def _answered(
        self,
        call: AppendCall,
        appending: Call[AppendRecordsResponse],
    ) -> None:
        """Settle the rows that were stored; have the others repeated or fail."""
        if self._closed:
            return
        self._in_flight.pop(appending, None)
        try:
            answer = appending.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - as above.
            call.refuse_all(failure_of(error, call.peer))
        else:
            try:
                self._settle(call, answer.table_result)
            except Exception as error:  # noqa: BLE001 - as above.
                self._lose(call, error)
        self._finish(call)

    def _settle(self, call: AppendCall, result: AppendTableResult) -> None:
        call.refused = settle_rows(call, result)
        if call.refused:
            refused = {row for row, _ in call.refused}
            self.unsettled.forget_all([row for row in call.rows if row not in refused])
        else:
            self.unsettled.forget_all(call.rows)
        call.answers_late = result.acknowledged_level > ACKNOWLEDGED_LEVEL_MEMORY
        if self._latencies.counts_all or call.broker_name in self._latencies.left_alone:
            latency_s = self._clock.monotonic_s() - call.begun_s
            self._latencies.answered(call.broker_name, latency_s)

    def _lose(self, call: AppendCall, error: Exception) -> None:
        """Give up rows without an outcome, after an unexpected error."""
        call.refused = []
        self.unsettled.lose(call.broker_name, call.rows, error)

    def _finish(self, call: AppendCall) -> None:
        """Give the call back, after a task has decided what is repeated."""
        if not call.refused:
            call.over(call)
            return
        keep_encoded(call)
        task = start_task(self._repeat(call), f"repeats-{call.broker_name}")
        self._finishing[task] = None
        task.add_done_callback(self._finishing.pop)

    async def _repeat(self, call: AppendCall) -> None:
        try:
            await self._repeats.take(call.broker_name, call.refused, lost=call.lost)
        except Exception as error:  # noqa: BLE001 - as above.
            self.unsettled.lose(call.broker_name, call.rows, error)
        finally:
            call.over(call)
