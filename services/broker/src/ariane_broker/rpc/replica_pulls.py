"""What a replica lets read: ranges of queues by position, as far as its primary has confirmed them.

::

    PullRange, PullMessageRange, ListQueueBounds     answered
    all else                                         BROKER_NOT_PRIMARY, which names the primary

Groups, their offsets and locks are the primary's: whoever consumes for a group asks there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.queue_key import QueueKey
from ariane_broker.replication_errors import broker_not_primary
from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.pull_servicer import PullServicer
from ariane_storage.store import Store

TO_THE_END: Final = 1 << 61
"""Ends of ranges from here on mean whatever can be read."""


class ReplicaPulls(NotPrimary):
    """``PullService`` of a replica."""

    def __init__(
        self, primary_address: Callable[[], str], servicer: PullServicer, store: Store
    ) -> None:
        """Take the parts.

        Args:
            primary_address: Where the primary is; nothing while there is none.
            servicer: Answers what is answered.
            store: What is read.
        """
        super().__init__(primary_address)
        self._where = primary_address
        self._servicer = servicer
        self._store = store

    async def PullRange(  # noqa: N802 - the contract's name.
        self, request: pull_pb.PullRangeRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pull_pb.PullRangeResponse]:
        """Stream a range of one queue."""
        self._check(request)
        async with aclosing(self._servicer.PullRange(request, context)) as chunks:  # type: ignore[type-var]  # a generator.
            async for chunk in chunks:
                yield chunk

    async def PullMessageRange(  # noqa: N802 - the contract's name.
        self, request: pull_pb.PullMessageRangeRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pull_pb.PullMessageRangeResponse]:
        """Stream a range of one queue as plain messages."""
        self._check(request)
        async with aclosing(self._servicer.PullMessageRange(request, context)) as chunks:  # type: ignore[type-var]  # a generator.
            async for chunk in chunks:
                yield chunk

    async def ListQueueBounds(  # noqa: N802 - the contract's name.
        self, request: pull_pb.ListQueueBoundsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.ListQueueBoundsResponse:
        """Tell the bounds of a topic's queues, as far as they can be read here."""
        self._check_told()
        return await self._servicer.ListQueueBounds(request, context)

    def _check(self, request: pull_pb.PullRangeRequest | pull_pb.PullMessageRangeRequest) -> None:
        """Refuse a range whose end is not here: it would end before it should.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        self._check_told()
        end = self._store.queue_bounds(*QueueKey(request.topic, request.queue_id))[1]
        if end < request.end_queue_offset < TO_THE_END:
            raise broker_not_primary(self._where())

    def _check_told(self) -> None:
        """Refuse everything while no primary has told what is confirmed.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        if self._store.confirmed_offset <= self._store.min_offset < self._store.max_offset:
            raise broker_not_primary(self._where())
