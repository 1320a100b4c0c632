"""Reading from a replica: ranges of queues by position, as far as its primary has confirmed them.

::

    PullRange, ListQueueBounds                       answered
    the same with a log epoch                        BROKER_NOT_PRIMARY, which names the primary
    the same while the log cannot be read            BROKER_NOT_PRIMARY
    all else                                         BROKER_NOT_PRIMARY

Only the primary knows whether positions of an earlier epoch still mean the same messages. Groups,
their offsets and locks are on the primary: consumers of a group use the primary.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.errors.replication import broker_not_primary
from ariane_broker.queue_key import QueueKey
from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.servicers.pull_servicer import PullServicer
from ariane_storage.store import Store

TO_THE_END: Final = 1 << 61
"""An end of a range at or above this means the end of what can be read."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaLogGate:
    """Decides when the log of a replica can be read. Lives on one loop."""

    primary_address: Callable[[], str]
    """Returns the primary's address; empty while there is none."""
    _: KW_ONLY
    knows_confirmed: Callable[[], bool]
    """Whether a primary has reported the confirmed offset."""
    is_agreeing: Callable[[], bool]
    """Whether the log is being cut to agree with a primary's."""
    agreement_count: Callable[[], int]
    """How often that has begun."""

    def open(self) -> Callable[[], None]:
        """Begin to read.

        Returns:
            A check to call before each further read: it refuses once the log may have been cut
            since reading began.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY, also later.
        """
        if self.is_agreeing() or not self.knows_confirmed():
            raise broker_not_primary(self.primary_address())
        begun = self.agreement_count()

        def check() -> None:
            if self.agreement_count() != begun:
                raise broker_not_primary(self.primary_address())

        return check


class ReplicaPulls(NotPrimary):
    """``PullService`` of a replica."""

    def __init__(
        self,
        primary_address: Callable[[], str],
        servicer: PullServicer,
        store: Store,
        gate: ReplicaLogGate,
    ) -> None:
        """``servicer`` answers the calls that are not refused; the address may be empty."""
        super().__init__(primary_address)
        self._where = primary_address
        self._servicer = servicer
        self._store = store
        self._gate = gate

    async def PullRange(  # noqa: N802 - the contract's name.
        self, request: pull_pb.PullRangeRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pull_pb.PullRangeResponse]:
        """Stream a range of one queue."""
        self._check(request)
        async with aclosing(self._servicer.PullRange(request, context)) as chunks:  # type: ignore[type-var]  # a generator.
            async for chunk in chunks:
                yield chunk

    async def ListQueueBounds(  # noqa: N802 - the contract's name.
        self, request: pull_pb.ListQueueBoundsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pull_pb.ListQueueBoundsResponse:
        """Return the bounds of a topic's queues, as far as they can be read here."""
        self._gate.open()
        return await self._servicer.ListQueueBounds(request, context)

    def _check(self, request: pull_pb.PullRangeRequest) -> None:
        """Refuse a range whose end is not here yet, since it would end too early; and any epoch.

        Raises:
            ServiceError: BROKER_NOT_PRIMARY.
        """
        self._gate.open()
        end = self._store.queue_bounds(*QueueKey(request.topic, request.queue_id))[1]
        if request.log_epoch or end < request.end_queue_offset < TO_THE_END:
            raise broker_not_primary(self._where())
