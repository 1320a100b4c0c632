"""The streams on which producers store half messages and end transactions.

What can be done at once is done together, for the price of a few blocks; the rest one by one, with
the very code that serves single calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from google.rpc.status_pb2 import Status
from grpc import aio

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.errors import broker_draining
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.peer_address import peer_host
from ariane_broker.rpc.wire.transaction_wire import (
    end_response,
    end_wish,
    half_result,
    half_wish,
)
from ariane_broker.transactions.ending import Ended, TransactionEnds
from ariane_broker.transactions.ends_together import EndedNow, EndsTogether
from ariane_broker.transactions.half_send import HALF_MESSAGES_MAX, HalfSend
from ariane_broker.transactions.halves_together import HalfWish, HalvesTogether
from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_record.errors import RecordError
from ariane_record.layout import Host
from ariane_servicekit.error_status import status_of
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.request_stream import RequestStreams
from ariane_storage.errors import StorageError

ENDS_MAX: Final = 256
"""Ends of one request."""

FAILURES: Final = (ServiceError, StorageError, RecordError, OSError)
"""What fails one by itself, and not its request."""


class StreamParts(NamedTuple):
    """What works on the requests of all streams.

    Attributes:
        log: Where everything goes.
        halves: Stores half messages together.
        half_send: Stores them one by one.
        ends_together: Ends transactions together.
        ends: Ends them one by one.
        broker_name: As it stands in answers.
        now_ms: Milliseconds since the epoch.
        is_draining: Whether the broker takes no messages; it ends transactions nevertheless.
        service_error: Makes errors of the store public.
    """

    log: BrokerLog
    halves: HalvesTogether
    half_send: HalfSend
    ends_together: EndsTogether
    ends: TransactionEnds
    broker_name: str
    now_ms: Callable[[], int]
    is_draining: Callable[[], bool]
    service_error: Callable[[Exception], ServiceError]


class TransactionStreams:
    """All of them."""

    def __init__(self, parts: StreamParts) -> None:
        """Have none.

        Args:
            parts: What works on requests.
        """
        self._parts = parts
        self._streams = RequestStreams(broker_draining)

    async def serve(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Answer the requests of a stream until it ends.

        Raises:
            ServiceError: SERVICE_DRAINING.
        """
        worker = _TransactionWorker(self._parts, peer_host(context.peer()))
        await self._streams.serve(context, worker)

    def close(self) -> None:
        """Read nothing more; answer what is in work, and end the streams."""
        self._streams.close()


class _TransactionWorker:
    """Works on the requests of one producer."""

    def __init__(self, parts: StreamParts, born_host: Host) -> None:
        self._parts = parts
        self._born_host = born_host

    def work(
        self, request: transaction_pb.StreamTransactionsRequest
    ) -> (
        transaction_pb.StreamTransactionsResponse
        | Awaitable[transaction_pb.StreamTransactionsResponse]
    ):
        """Do what it asks for; the answer, or what it is to be waited for."""
        parts = self._parts
        _check_count("half_messages", len(request.half_messages), HALF_MESSAGES_MAX)
        _check_count("ends", len(request.ends), ENDS_MAX)
        now_ms = parts.now_ms()
        wishes = list(map(half_wish, request.half_messages))
        stored: list[HalfMessage | None] = [None] * len(wishes)
        if not parts.is_draining():
            stored = parts.halves.store(wishes, self._born_host, now_ms)
        ended = parts.ends_together.end(list(map(end_wish, request.ends)), now_ms)
        if parts.log.promise.waits or None in stored or None in ended:
            return self._rest(request, wishes, stored, ended)
        level = parts.log.promise.level
        return transaction_pb.StreamTransactionsResponse(
            request_number=request.request_number,
            half_messages=[half_result(half.transaction_id, level) for half in stored if half],
            ends=[self._end_result(done, level) for done in ended if done],
        )

    def refusal(
        self, request: transaction_pb.StreamTransactionsRequest, status: Status
    ) -> transaction_pb.StreamTransactionsResponse:
        """The answer to a request that failed."""
        return transaction_pb.StreamTransactionsResponse(
            request_number=request.request_number, error=status
        )

    async def _rest(
        self,
        request: transaction_pb.StreamTransactionsRequest,
        wishes: Sequence[HalfWish],
        stored: Sequence[HalfMessage | None],
        ended: Sequence[EndedNow | None],
    ) -> transaction_pb.StreamTransactionsResponse:
        """Do the rest, one by one, and wait for what the broker promises."""
        log = self._parts.log
        end = log.store.max_offset
        later_halves = [
            self._send(wish) for wish, half in zip(wishes, stored, strict=True) if half is None
        ]
        later_ends = [
            self._end(each) for each, done in zip(request.ends, ended, strict=True) if done is None
        ]
        half_results = iter(await asyncio.gather(*later_halves))
        end_results = iter(await asyncio.gather(*later_ends))
        level = await log.promised(end)
        return transaction_pb.StreamTransactionsResponse(
            request_number=request.request_number,
            half_messages=[
                next(half_results) if half is None else half_result(half.transaction_id, level)
                for half in stored
            ],
            ends=[
                next(end_results) if done is None else self._end_result(done, level)
                for done in ended
            ],
        )

    async def _send(self, wish: HalfWish) -> transaction_pb.HalfMessageResult:
        """Store one half message, or learn why not."""
        try:
            sent = await self._parts.half_send.send(
                wish.topic, wish.queue_id, [wish.message], wish.producer_group, self._born_host
            )
        except FAILURES as error:
            status = status_of(self._parts.service_error(error))
            return transaction_pb.HalfMessageResult(error=status)
        (half,) = sent.half_messages
        return half_result(half.transaction_id, sent.level, duplicate=sent.duplicate)

    async def _end(
        self, request: transaction_pb.EndTransactionRequest
    ) -> transaction_pb.EndTransactionResult:
        """End one transaction, or learn why not."""
        try:
            ended = await self._parts.ends.end(end_wish(request))
        except FAILURES as error:
            status = status_of(self._parts.service_error(error))
            return transaction_pb.EndTransactionResult(error=status)
        return transaction_pb.EndTransactionResult(
            answer=end_response(ended, self._parts.broker_name)
        )

    def _end_result(
        self, ended: EndedNow, level: AcknowledgedLevel
    ) -> transaction_pb.EndTransactionResult:
        now = Ended(ended.outcome, ended.place, level, duplicate=False)
        return transaction_pb.EndTransactionResult(
            answer=end_response(now, self._parts.broker_name)
        )


def _check_count(field: str, count: int, count_max: int) -> None:
    if count > count_max:
        raise field_invalid(field, f"must be at most {count_max}", count)
