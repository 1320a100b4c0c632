"""The streams on which producers store half messages and end transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from google.rpc.status_pb2 import Status
from grpc import aio

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.errors import broker_draining
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.peer_address import peer_host
from ariane_broker.rpc.wire.stored_message import EncodingDefaults
from ariane_broker.rpc.wire.transaction_wire import end_result, end_wish, half_result, half_wish
from ariane_broker.transactions.ending import EndOutcome, EndWish, TransactionEnds
from ariane_broker.transactions.halves import HalfOutcome, HalfWish, Halves
from ariane_record.layout import Host
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.request_stream import RequestStreams

WISHES_MAX: Final = 256
"""Half messages of one request, and ends of one."""


class StreamParts(NamedTuple):
    """Works on the requests of all streams.

    Attributes:
        log: Where everything goes.
        halves: Stores half messages.
        ends: Ends transactions.
        broker_name: As it stands in answers.
        now_ms: Milliseconds since the epoch.
        body_bytes_max: Largest body of a message.
        cluster_name: The cluster of this broker.
        service_error: Makes errors of the store public.
    """

    log: BrokerLog
    halves: Halves
    ends: TransactionEnds
    broker_name: str
    now_ms: Callable[[], int]
    body_bytes_max: int
    cluster_name: str
    service_error: Callable[[Exception], ServiceError]


class TransactionStreams:
    """All of them."""

    def __init__(self, parts: StreamParts) -> None:
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
        for field in ("half_messages", "ends"):
            count = len(getattr(request, field))
            if count > WISHES_MAX:
                raise field_invalid(field, f"must be at most {WISHES_MAX}", count)
        parts = self._parts
        defaults = EncodingDefaults("", parts.now_ms(), parts.body_bytes_max, parts.cluster_name)
        wishes = [
            half_wish(half, position, defaults)
            for position, half in enumerate(request.half_messages)
        ]
        if parts.halves.need_topics(wishes):
            return self._work_later(request, wishes)
        stored = parts.halves.store(wishes, self._born_host)
        ends = list(map(end_wish, request.ends))
        ended = parts.ends.end(ends)
        if parts.log.promise.waits or None in ended:
            return self._wait(request, stored, ends, ended)
        return self._answer(request, stored, ended, parts.log.promise.level)

    def refusal(
        self, request: transaction_pb.StreamTransactionsRequest, status: Status
    ) -> transaction_pb.StreamTransactionsResponse:
        """The answer to a request that failed."""
        return transaction_pb.StreamTransactionsResponse(
            request_number=request.request_number, error=status
        )

    async def _work_later(
        self,
        request: transaction_pb.StreamTransactionsRequest,
        wishes: Sequence[HalfWish | ServiceError],
    ) -> transaction_pb.StreamTransactionsResponse:
        """Make topics first."""
        wishes = await self._parts.halves.with_topics(wishes)
        stored = self._parts.halves.store(wishes, self._born_host)
        ends = list(map(end_wish, request.ends))
        return await self._wait(request, stored, ends, self._parts.ends.end(ends))

    async def _wait(
        self,
        request: transaction_pb.StreamTransactionsRequest,
        stored: Sequence[HalfOutcome],
        ends: Sequence[EndWish],
        ended: Sequence[EndOutcome | None],
    ) -> transaction_pb.StreamTransactionsResponse:
        """Finish what had to wait, and wait for what the broker promises."""
        ended = await self._parts.ends.finish(ends, ended)
        level = await self._parts.log.promised()
        return self._answer(request, stored, ended, level)

    def _answer(
        self,
        request: transaction_pb.StreamTransactionsRequest,
        stored: Sequence[HalfOutcome],
        ended: Sequence[EndOutcome | None],
        level: AcknowledgedLevel,
    ) -> transaction_pb.StreamTransactionsResponse:
        name, service_error = self._parts.broker_name, self._parts.service_error
        return transaction_pb.StreamTransactionsResponse(
            request_number=request.request_number,
            half_messages=[half_result(each, level, service_error) for each in stored],
            ends=[end_result(each, level, name, service_error) for each in ended if each],
        )
