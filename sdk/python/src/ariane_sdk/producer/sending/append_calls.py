"""Calls that append: the rows of a call are sent together, and settled when the answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendRecordsResponse, AppendTableResult
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.row_encoder import encode_rows
from ariane_sdk.errors import DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.sender import AppendCall
from ariane_sdk.producer.sending.table_wire import (
    keep_encoded,
    settle_rows,
    table_request,
    trace_parents_of,
)
from ariane_sdk.runtime.tasks import start_task

CALL_TIMEOUT_S_MIN: Final = 0.05

_deadline_of: Final = attrgetter("deadline_s")


class AppendCalls:
    """Sends calls, and settles their rows."""

    def __init__(self, parts: ProducerParts, repeats: Repeats) -> None:
        self._connections = parts.connections
        self._routes = parts.routes.known
        self._unsettled = parts.unsettled
        self._repeats = repeats
        self._latencies = parts.latencies
        self._unique_ids = parts.unique_ids
        self._settings = parts.settings
        self._clock = parts.clock
        self._in_flight: dict[Call[AppendRecordsResponse], None] = {}
        self._closed = False
        self._finishing: dict[asyncio.Task[None], None] = {}

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
        """End all calls; rows in flight may have been stored."""
        self._closed = True
        for appending in list(self._in_flight):
            appending.cancel()
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)

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
        count, traced, number = 0, False, self._unsettled.sequences.number
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
            call.encoded = encode_rows(fresh, self._unique_ids.next_ids(count))
        trace_parents = trace_parents_of(call.rows) if traced else ()
        return table_request(call.rows, tables, call.encoded, trace_parents)

    def _in_time(self, rows: Sequence[Row], now_s: float) -> list[Row]:
        """Return the rows with time left; the others fail."""
        in_time: list[Row] = []
        for row in rows:
            if row.deadline_s > now_s:
                in_time.append(row)
            else:
                late = DeadlinePassed("its time was up before it was sent", retriable=True)
                self._unsettled.fail(row, row.last_refusal or late)
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
        call.refused = settle_rows(call.rows, call.encoded, result, address=call.address)
        if call.refused:
            refused = {row for row, _ in call.refused}
            self._unsettled.forget_all([row for row in call.rows if row not in refused])
        else:
            self._unsettled.forget_all(call.rows)
        call.answers_late = result.acknowledged_level > ACKNOWLEDGED_LEVEL_MEMORY
        if self._latencies.counts_all or call.broker_name in self._latencies.left_alone:
            latency_s = self._clock.monotonic_s() - call.begun_s
            self._latencies.answered(call.broker_name, latency_s)

    def _lose(self, call: AppendCall, error: Exception) -> None:
        """Give up rows without an outcome, after an unexpected error."""
        call.refused = []
        self._unsettled.lose(call.broker_name, call.rows, error)

    def _finish(self, call: AppendCall) -> None:
        """Give the call back, after a task has decided what is repeated."""
        if not call.refused:
            call.over(call)
            return
        if call.encoded is not None:
            keep_encoded(call.rows, call.encoded)
        task = start_task(self._repeat(call), f"repeats-{call.broker_name}")
        self._finishing[task] = None
        task.add_done_callback(self._finishing.pop)

    async def _repeat(self, call: AppendCall) -> None:
        try:
            await self._repeats.take(call.broker_name, call.refused, lost=call.lost)
        except Exception as error:  # noqa: BLE001 - as above.
            self._unsettled.lose(call.broker_name, call.rows, error)
        finally:
            call.over(call)
