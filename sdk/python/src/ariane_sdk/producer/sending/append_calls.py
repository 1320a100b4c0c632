"""Calls that append: the rows of a call are sent together, and settled when the answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendRecordsResponse
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_record.encoding.message_properties import EncodedProperties
from ariane_record.encoding.row_encoder import EncodedRows, MessageRows, encode_rows
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.producer.accumulator.row import Row, RowMessage
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.sender import AppendCall
from ariane_sdk.producer.sending.table_wire import (
    SentRows,
    settle_rows,
    table_request,
    trace_parents_of,
)
from ariane_sdk.runtime.tasks import start_task

CALL_TIMEOUT_S_MIN: Final = 0.05

_body_of: Final[Callable[[RowMessage], bytes]] = itemgetter(0)
_properties_of: Final[Callable[[RowMessage], EncodedProperties]] = itemgetter(1)
_born_of: Final[Callable[[RowMessage], int]] = itemgetter(2)
_messages_of = attrgetter("messages")
_table_of = attrgetter("table")


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
        if min([row.deadline_s for row in call.rows]) <= now_s:
            call.rows = self._in_time(call.rows, now_s)
            if not call.rows:
                return False
        # An old row must not end the call of younger ones: those behind them would be as old by
        # the time of their call, and so on for good.
        deadline_s = max([row.deadline_s for row in call.rows])
        address = self._address(call.broker_name, [row.topic for row in call.rows])
        if not address:
            text = f"broker {call.broker_name}: nobody knows where it is"
            call.refuse_all(ServiceUnavailable(text, reason="BROKER_NOT_PRIMARY"))
            return False
        request = self._encoded(call)
        call.peer = f"broker {call.broker_name} at {address}"
        left_s = min(deadline_s - call.begun_s, self._settings.call_timeout_s)
        appending = self._connections.append_records(
            address, request, max(CALL_TIMEOUT_S_MIN, left_s)
        )
        self._in_flight[appending] = None
        appending.add_done_callback(partial(self._answered, call, address))
        return True

    def _encoded(self, call: AppendCall) -> bytes:
        """Encode a request: rows that are encoded already come first."""
        for row in call.rows:
            self._unsettled.number(row)
            row.in_flight = True
        rows = call.rows
        if any(map(_table_of, rows)):
            rows = sorted(rows, key=lambda row: row.table is None)
        tables = [
            row.table if row.sequence is None else row.table.with_sequence(row.sequence)
            for row in rows
            if row.table is not None
        ]
        fresh = rows[len(tables) :]
        unique_ids = encoded = None
        if fresh:
            unique_ids = self._unique_ids.next_ids(sum([len(row.messages) for row in fresh]))
            encoded = _encoded_rows(fresh, unique_ids)
        call.sent = SentRows(rows, encoded, unique_ids)
        traced = any(row.trace_parents for row in rows)
        trace_parents = trace_parents_of(rows) if traced else ()
        return table_request(rows, tables, encoded, trace_parents)

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

    def _address(self, broker_name: str, topics: Iterable[str]) -> str:
        """Look up the address of a broker in the routes of these topics; "" if no route has it."""
        for topic in topics:
            route = self._routes.get(topic)
            address = route.primary_addresses.get(broker_name) if route is not None else None
            if address:
                return address
        return ""

    def _answered(
        self,
        call: AppendCall,
        address: str,
        appending: Call[AppendRecordsResponse],
    ) -> None:
        """Settle the rows that were stored; have the others repeated or fail."""
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
            call.refuse_all(answer)
            return
        if call.sent is None:
            raise AssertionError("an answer to what was not sent")
        result = answer.table_result
        call.refused = settle_rows(call.sent, result, address=address, peer=call.peer)
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
        if call.sent is not None:
            call.sent.keep_encoded()
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


def _encoded_rows(rows: Sequence[Row], unique_ids: UniqueIds) -> EncodedRows:
    """Encode the messages of rows."""
    # Not by `zip`: it would make an iterator for each message, which wakes the garbage collector.
    messages = list(chain.from_iterable(map(_messages_of, rows)))
    columns = MessageRows(
        topics=[row.topic_properties for row in rows],
        counts=[len(row.messages) for row in rows],
        sequences=[row.sequence for row in rows],
        sizes_bytes=[row.size_bytes for row in rows],
        bodies=list(map(_body_of, messages)),
        properties=list(map(_properties_of, messages)),
        born_timestamps_ms=list(map(_born_of, messages)),
    )
    return encode_rows(columns, unique_ids)
