"""``PullService`` of the broker, served by a FilterServer for groups with uploaded filters."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NoReturn, cast

from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceServicer
from ariane_filter.pulling.filtered_pulls import FilteredPulls
from ariane_servicekit import AnswerBudget, AnswerLease, ServiceError, feature_not_available

ANSWER_S: Final = 0.1
"""A held call is answered this long before its deadline, so that the answer still arrives."""


class FilteredPullServicer(PullServiceServicer):
    """Translates pulls. Ranges and lookups are not for groups: only the broker answers them."""

    def __init__(self, pulls: FilteredPulls, answers: AnswerBudget) -> None:
        self._pulls = pulls
        self._answers = answers

    async def PullRecords(
        self, request: pull_pb.PullRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.PullRecordsResponse:
        """Pull packed records of many queues."""
        lease = self._lease_of(context)
        return await self._pulls.records(request, lease, timeout_s=_timeout_s(context))

    async def StreamPulls(
        self,
        request_iterator: AsyncIterator[pull_pb.StreamPullsRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pull_pb.StreamPullsResponse]:
        """Stream pulls of packed records."""
        async with aclosing(self._pulls.stream(request_iterator, context.peer())) as answers:
            async for answer in answers:
                yield answer
                del answer  # Not kept while the next one is awaited.

    def PullRange(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise _only_at_the_broker("reading a range")

    def ListQueueBounds(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise _only_at_the_broker("the bounds of queues")

    def FindQueueOffsets(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise _only_at_the_broker("looking up offsets")

    async def PullMessages(
        self, request: pull_pb.PullMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.PullMessagesResponse:
        """Pull plain messages of many queues."""
        lease = self._lease_of(context)
        return await self._pulls.messages(request, lease, timeout_s=_timeout_s(context))

    def _lease_of(self, context: aio.ServicerContext[Any, Any]) -> AnswerLease:
        """Memory for the answer of a call, which is released when the call has ended."""
        lease = self._answers.lease(context.peer())

        def release(_: aio.ServicerContext[Any, Any]) -> None:
            lease.release()

        context.add_done_callback(cast("Any", release))  # Its type is only in the stubs.
        return lease


def _only_at_the_broker(what: str) -> ServiceError:
    return feature_not_available(f"{what} at a FilterServer, and not at its broker,")


def _timeout_s(context: aio.ServicerContext[Any, Any]) -> float | None:
    remaining: float | None = context.time_remaining()
    return None if remaining is None else max(0.0, remaining - ANSWER_S)
