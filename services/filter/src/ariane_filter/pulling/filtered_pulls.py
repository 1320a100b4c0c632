"""Pulls of groups with uploaded filters: pulled from the broker without them, and filtered here.

::

    consumer -- pull, "late@3f2a.." --> FilterServer -- the same pull, all messages --> broker
    consumer <-- what matches --------- worker says which <-- records ------------------ broker

The broker does everything else about a pull: holds, positions, locks, epochs, errors of queues. A
stream of pulls is a stream to the broker; the next request is forwarded at once, and ends the hold
of the one before there.

Before a pull from the broker, memory for its answer is taken from a budget. It is released when the
filtered answer has been sent to the consumer. So a consumer that reads no answers fills no memory
here; nor in the broker, where all consumers of a FilterServer share one connection, so that one
could block the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from grpc import StatusCode, aio

from ariane.broker.v1.pull_service_pb2 import (
    PULL_PROJECTION_RECORDS,
    PullMessagesRequest,
    PullMessagesResponse,
    PullRecordsRequest,
    PullRecordsResponse,
    QueueMessages,
    QueueRecords,
    StreamPullsRequest,
    StreamPullsResponse,
)
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.subscription_pb2 import FILTER_KIND_UPLOADED
from ariane_filter.catalogue.filter_version import parse_filter_version
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.pulling.selection import selected
from ariane_filter.running.running_filter import RunningFilter
from ariane_filter.running.running_filters import RunningFilters
from ariane_record import IllegalName, check_group_name
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import AnswerBudget, AnswerLease, ServiceError, first_request

Filters: TypeAlias = Mapping[str, RunningFilter]
"""The uploaded filters of a pull, by topic."""

AnyPull: TypeAlias = PullRecordsRequest | PullMessagesRequest
_PullStream: TypeAlias = "aio.StreamStreamCall[StreamPullsRequest, StreamPullsResponse]"
PullT = TypeVar("PullT", PullRecordsRequest, PullMessagesRequest)
_T = TypeVar("_T")

_REQUESTS_AHEAD: Final = 8
"""Requests of a stream that have gone to the broker and are not answered."""

_QUOTED_MAX: Final = 500
"""The most characters of an invalid name that an error repeats."""

SIZE_BYTES_DEFAULT: Final = 1 << 20
"""The size limit of a pull that has none."""

_SIZE: Final = np.dtype("<i4")


class _PendingRequest(NamedTuple):
    """A request of a stream that the broker has not answered."""

    pull: PullRecordsRequest
    lease: AnswerLease


class FilteredPulls:
    """Pulls from the broker, and filters its answers."""

    def __init__(self, link: BrokerLink, running: RunningFilters, answers: AnswerBudget) -> None:
        """Use a link that is connected by the time of the first call."""
        self._answers = answers
        self._link = link
        self._running = running
        self._draining = asyncio.Event()

    def close(self) -> None:
        """End held pulls: consumers go to another FilterServer."""
        self._draining.set()

    async def records(
        self, request: PullRecordsRequest, lease: AnswerLease, *, timeout_s: float | None
    ) -> PullRecordsResponse:
        """One pull of packed records.

        Args:
            request: The consumer's request.
            lease: Memory for the answer; the caller releases it.
            timeout_s: The time that the call's deadline allows, in seconds.

        Raises:
            ServiceError: The filter does not exist or does not run; or the broker's error.
        """
        await self._filters_of(request)
        asked = _to_broker(request)
        await self._until_drained(_take_memory(lease, asked))
        call = self._link.pulls.PullRecords(asked, timeout=timeout_s)
        return await self._selected(await self._until_drained(call), request)

    async def messages(
        self, request: PullMessagesRequest, lease: AnswerLease, *, timeout_s: float | None
    ) -> PullMessagesResponse:
        """One pull of plain messages: the messages are selected as records first.

        Args:
            request: The consumer's request.
            lease: Memory for the answer; the caller releases it.
            timeout_s: The time that the call's deadline allows, in seconds.

        Raises:
            ServiceError: The filter does not exist or does not run; or the broker's error.
        """
        chosen = await self.records(as_records(request), lease, timeout_s=timeout_s)
        asked = _to_broker(request)
        asked.size_bytes_max = max(1, min(_size_wanted(asked), lease.held_bytes))
        asked.ClearField("hold_duration")
        everything = await self._link.pulls.PullMessages(asked, timeout=timeout_s)
        return plain_selection(chosen, everything, _uploaded_topics(request))

    async def stream(
        self, requests: AsyncIterator[StreamPullsRequest], peer: str
    ) -> AsyncGenerator[StreamPullsResponse]:
        """Pulls one after another; each has one answer, whether it may follow or not.

        Raises:
            ServiceError: As ``records``; ends the stream.
        """
        first = await first_request(anext(requests, None))
        if first is None:
            return
        # The stub's type has only streams whose requests are known beforehand.
        call = cast("_PullStream", cast("Any", self._link.pulls).StreamPulls())
        asked: deque[_PendingRequest] = deque()
        lease = self._answers.lease(peer)
        room = asyncio.Semaphore(_REQUESTS_AHEAD)

        async def forward() -> None:
            request: StreamPullsRequest | None = first
            while request is not None:
                await room.acquire()
                await self._filters_of(request.pull)
                pull = _to_broker(request.pull)
                each = _PendingRequest(request.pull, self._answers.lease(peer))
                await _take_memory(each.lease, pull)
                asked.append(each)
                try:
                    await call.write(StreamPullsRequest(pull=pull))
                except asyncio.InvalidStateError:
                    return  # The broker has ended the stream; the reader finds the reason.
                request = await anext(requests, None)
            await call.done_writing()

        forwarding = asyncio.create_task(forward(), name="forward-pulls")
        try:
            while True:
                answer = await self._until_drained(call.read(), forwarding)
                if not isinstance(answer, StreamPullsResponse):
                    await _raise_end(call)
                    return
                pull, lease = asked.popleft()
                room.release()
                pulled = await self._selected(answer.pulled, pull)
                del answer
                lease.settle(lease.held_bytes, _size_of(pulled))
                yield StreamPullsResponse(pulled=pulled)
                del pulled
                lease.release()
        finally:
            call.cancel()
            forwarding.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await forwarding
            lease.release()
            for each in asked:
                each.lease.release()

    async def _until_drained(
        self, work: Awaitable[_T], beside: asyncio.Task[None] | None = None
    ) -> _T:
        """Await some work, unless the service drains, or a task beside it fails.

        Raises:
            ServiceError: SERVICE_DRAINING; or the error of the task.
        """
        working = asyncio.ensure_future(work)
        draining = asyncio.create_task(self._draining.wait())
        waited: set[asyncio.Future[object]] = {
            cast("asyncio.Future[object]", working),
            cast("asyncio.Future[object]", draining),
        }
        if beside is not None:
            waited.add(cast("asyncio.Future[object]", beside))
        try:
            while not working.done():
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if beside in done:
                    beside.result()
                    waited.discard(cast("asyncio.Future[object]", beside))
                if draining in done and not working.done():
                    raise ServiceError(
                        ErrorReason.ERROR_REASON_SERVICE_DRAINING,
                        "this FilterServer is draining; go to another one",
                    )
            return working.result()
        finally:
            draining.cancel()
            working.cancel()

    async def _filters_of(self, request: AnyPull) -> Filters:
        """The uploaded filters of a pull.

        Raises:
            ServiceError: FILTER_EXPRESSION_INVALID, or one of them does not run;
                GROUP_NAME_ILLEGAL, so that illegal names are never stored.
        """
        try:
            check_group_name(request.consumer_group, system=True)
        except IllegalName as error:
            raise ServiceError(
                ErrorReason.ERROR_REASON_GROUP_NAME_ILLEGAL,
                str(error)[:_QUOTED_MAX],
                {"consumer_group": request.consumer_group[:_QUOTED_MAX]},
            ) from None
        return {
            subscription.topic: await self._running.get(
                *parse_filter_version(subscription.filter.text), request.consumer_group
            )
            for subscription in request.subscriptions
            if subscription.filter.kind == FILTER_KIND_UPLOADED
        }

    async def _selected(self, answer: PullRecordsResponse, request: AnyPull) -> PullRecordsResponse:
        """An answer without the messages that its filters leave out.

        The filters are looked up again: while the pull was held or waited, a filter may have been
        stopped, or its idle worker ended.

        Raises:
            ServiceError: As ``_filters_of``.
        """
        return await selected(answer, await self._filters_of(request))


def _uploaded_topics(request: AnyPull) -> frozenset[str]:
    return frozenset(
        each.topic for each in request.subscriptions if each.filter.kind == FILTER_KIND_UPLOADED
    )


async def _raise_end(call: _PullStream) -> None:
    """Raise the error with which the broker ended a stream, if there was one."""
    code = await call.code()
    if code is not StatusCode.OK:
        raise aio.AioRpcError(
            code,
            await call.initial_metadata(),
            await call.trailing_metadata(),
            await call.details(),
        )


async def _take_memory(lease: AnswerLease, asked: PullRecordsRequest) -> None:
    """Take memory for an answer, and limit the pull to that.

    Requests that the broker will refuse are left unchanged.
    """
    wanted = _size_wanted(asked)
    granted = await lease.take(wanted)
    if asked.size_bytes_max >= 0:
        asked.size_bytes_max = granted


def _size_wanted(asked: AnyPull) -> int:
    """The bytes that a pull asks for."""
    return asked.size_bytes_max if asked.size_bytes_max > 0 else SIZE_BYTES_DEFAULT


def _size_of(pulled: PullRecordsResponse) -> int:
    """Bytes of records in an answer."""
    sizes = (np.frombuffer(queue.record_sizes, "<i4") for queue in pulled.queues)
    return sum(int(each.sum()) for each in sizes)


def _to_broker(request: PullT) -> PullT:
    """The same pull without the uploaded filters."""
    asked = type(request)()
    asked.CopyFrom(request)
    asked.uploaded_filters_follow = True
    if isinstance(asked, PullRecordsRequest):
        asked.projection = PULL_PROJECTION_RECORDS
    return asked


def as_records(request: PullMessagesRequest) -> PullRecordsRequest:
    """The equivalent pull of packed records."""
    return PullRecordsRequest(
        consumer_group=request.consumer_group,
        client_id=request.client_id,
        positions=request.positions,
        subscriptions=request.subscriptions,
        record_count_max=request.message_count_max,
        size_bytes_max=request.size_bytes_max,
        hold_duration=request.hold_duration if request.HasField("hold_duration") else None,
    )


def plain_selection(
    chosen: PullRecordsResponse, everything: PullMessagesResponse, topics: Collection[str]
) -> PullMessagesResponse:
    """The plain messages of selected records.

    Args:
        chosen: The records that filters have selected.
        everything: The same positions as plain messages, with nothing left out.
        topics: Topics with an uploaded filter; others are unchanged.
    """
    plain = {(queue.topic, queue.queue_id): queue for queue in everything.queues}
    queues = [queue for queue in everything.queues if queue.topic not in topics]
    for records in chosen.queues:
        if records.topic in topics:
            found = plain.get((records.topic, records.queue_id))
            queues += [] if found is None and records.records else [_queue(records, found)]
    return PullMessagesResponse(queues=queues)


def _queue(records: QueueRecords, found: QueueMessages | None) -> QueueMessages:
    queue = QueueMessages(
        topic=records.topic,
        queue_id=records.queue_id,
        error=records.error if records.HasField("error") else None,
        next_queue_offset=records.next_queue_offset,
        min_queue_offset=records.min_queue_offset,
        max_queue_offset=records.max_queue_offset,
        log_epoch=records.log_epoch,
        lost=records.lost,
    )
    if records.records and not records.HasField("error") and found is not None:
        sizes = np.frombuffer(records.record_sizes, _SIZE)
        wanted = frozenset(decode_columns(records.records, sizes).queue_offset.tolist())
        queue.messages.extend(
            each for each in found.messages if each.position.queue_offset in wanted
        )
        # Fewer plain messages may fit into an answer; the next pull gets the others.
        queue.next_queue_offset = min(records.next_queue_offset, found.next_queue_offset)
    return queue
