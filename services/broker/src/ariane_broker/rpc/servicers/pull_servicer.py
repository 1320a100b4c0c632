"""``PullService``: hands out messages by position."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import chain
from typing import Any, Final, cast

from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceServicer
from ariane_broker.filters.expiry import expiry_ms
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.read.pull import PullRecords
from ariane_broker.read.pull_order import PulledQueue, PullOrder
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.read.range_pull import Projection, PullRange, RangeOrder
from ariane_broker.rpc.answer_leases import hold_seconds_max, lease_of
from ariane_broker.rpc.pull_stream import PullStream, StreamOrder
from ariane_broker.rpc.translation.pull_wire import (
    pull_answer,
    pull_order,
    queue_messages,
    range_answer,
    stream_answer,
)
from ariane_broker.rpc.translation.subscription_wire import filter_of
from ariane_broker.rpc.translation.wire_time import milliseconds_of, time_of
from ariane_servicekit import AnswerBudget, field_invalid, in_turns
from ariane_servicekit.security.gate.charging import charge_handed_out

_PROJECTIONS: Final = {
    pull_pb.RANGE_PROJECTION_UNSPECIFIED: Projection.RECORDS,
    pull_pb.RANGE_PROJECTION_RECORDS: Projection.RECORDS,
    pull_pb.RANGE_PROJECTION_HEADERS: Projection.HEADERS,
    pull_pb.RANGE_PROJECTION_POSITIONS: Projection.POSITIONS,
}


class PullServicer(PullServiceServicer):
    """Translates pulls."""

    def __init__(
        self,
        pull_records: PullRecords,
        held: HeldRequests,
        pull_range: PullRange,
        lookup: QueueLookup,
        *,
        epochs: LogEpochs,
        answers: AnswerBudget,
        broker_name: str,
        now_ms: Callable[[], int],
    ) -> None:
        """``answers`` is the memory budget of answers; ``now_ms`` is the store's clock."""
        self._pull_records = pull_records
        self._held = held
        self._pull_range = pull_range
        self._lookup = lookup
        self._epochs = epochs
        self._answers = answers
        self._broker_name = broker_name
        self._now_ms = now_ms

    async def PullRecords(
        self, request: pull_pb.PullRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.PullRecordsResponse:
        """Pull packed records of many queues."""
        order = await pull_order(request, hold_seconds_max=hold_seconds_max(context))
        answer = await pull_answer(await self._answer(order, context))
        # The bytes are the encoded message, and are sent unchanged.
        return cast("pull_pb.PullRecordsResponse", answer)

    async def StreamPulls(
        self,
        request_iterator: AsyncIterator[pull_pb.StreamPullsRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pull_pb.StreamPullsResponse]:
        """Stream pulls of packed records."""
        lease = lease_of(self._answers, context)
        stream = PullStream(self._pull_records, self._held, request_iterator, _order_of, lease)
        async with aclosing(stream.answers()) as answers:
            async for pulled, more_follow in answers:
                _charge(pulled)
                # Bytes, as with single pulls.
                answer = await stream_answer(pulled, more_follow=more_follow)
                yield cast("pull_pb.StreamPullsResponse", answer)
                del pulled, answer  # Gone, as the lease says.
                lease.release()

    async def PullMessages(
        self, request: pull_pb.PullMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.PullMessagesResponse:
        """Pull plain messages of many queues."""
        order = await pull_order(request, hold_seconds_max=hold_seconds_max(context))
        pulled = await self._answer(order, context)
        queues = (queue_messages(queue, self._broker_name) for queue in pulled)
        return pull_pb.PullMessagesResponse(queues=await in_turns(chain.from_iterable(queues)))

    async def PullRange(
        self, request: pull_pb.PullRangeRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pull_pb.PullRangeResponse]:
        """Stream a range of one queue."""
        projection = _PROJECTIONS.get(request.projection)
        if projection is None:
            raise field_invalid("projection", "is not known", request.projection)
        topic, skip_expired = request.topic, request.skip_expired
        order = RangeOrder(
            topic=topic,
            queue_id=request.queue_id,
            begin=request.begin_queue_offset,
            end=request.end_queue_offset,
            filter=filter_of(request.filter),
            projection=projection,
            chunk_bytes=request.chunk_bytes,
            log_epoch=request.log_epoch,
            expired_by_ms=lambda: expiry_ms(topic, self._now_ms()) if skip_expired else 0,
        )
        async with aclosing(
            self._pull_range.read(order, lease_of(self._answers, context))
        ) as chunks:
            async for chunk in chunks:
                charge_handed_out([(order.topic, int(chunk.sizes.sum()))])
                # Bytes, as with streams of pulls.
                yield cast("pull_pb.PullRangeResponse", range_answer(chunk))

    async def ListQueueBounds(
        self, request: pull_pb.ListQueueBoundsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.ListQueueBoundsResponse:
        """Return the bounds of a topic's queues."""
        kept = await self._lookup.kept_queues(request.topic)
        queues = await in_turns(
            pull_pb.QueueBounds(
                queue_id=queue.queue_id,
                min_queue_offset=queue.min_queue_offset,
                max_queue_offset=queue.max_queue_offset,
                last_store_time=None
                if queue.last_store_timestamp_ms is None
                else time_of(queue.last_store_timestamp_ms),
                size_bytes=queue.size_bytes,
                log_epoch=self._epochs.announced,
            )
            for queue in kept
        )
        now = time_of(self._now_ms())
        return pull_pb.ListQueueBoundsResponse(queues=queues, broker_time=now)

    async def FindQueueOffsets(
        self, request: pull_pb.FindQueueOffsetsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.FindQueueOffsetsResponse:
        """Find the queue offsets at a time."""
        if not request.HasField("time"):
            raise field_invalid("time", "must be set")
        # Store times are cut to whole milliseconds, so this one is too: messages stored later in
        # its millisecond lie behind the lower boundary.
        timestamp_ms = milliseconds_of(request.time, "time")
        if request.boundary == pull_pb.TIME_BOUNDARY_UPPER:
            # The upper boundary is the offset of the first message after the time.
            timestamp_ms += 1
        elif request.boundary not in {
            pull_pb.TIME_BOUNDARY_UNSPECIFIED,
            pull_pb.TIME_BOUNDARY_LOWER,
        }:
            raise field_invalid("boundary", "is not known", request.boundary)
        found = await self._lookup.offsets_from(request.topic, timestamp_ms)
        queues = await in_turns(
            pull_pb.FoundQueueOffset(
                queue_id=queue_id, queue_offset=queue_offset, log_epoch=self._epochs.announced
            )
            for queue_id, queue_offset in found
        )
        return pull_pb.FindQueueOffsetsResponse(queues=queues)

    async def _answer(
        self, order: PullOrder, context: aio.ServicerContext[Any, Any]
    ) -> list[PulledQueue]:
        """The only answer to a single pull."""
        with self._pull_records.open(order, lease_of(self._answers, context)) as opened:
            pulled = await opened.answer()
        _charge(pulled)
        return pulled


def _charge(pulled: list[PulledQueue]) -> None:
    charge_handed_out((queue.queue.topic, queue.size_bytes) for queue in pulled)


async def _order_of(request: pull_pb.StreamPullsRequest) -> StreamOrder:
    order = await pull_order(request.pull, hold_seconds_max=None)
    return StreamOrder(order, follow=request.follow)
