"""Requests of producers that store half messages and end transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import Demand
from ariane_broker.rpc.translation.stored_message import EncodingDefaults
from ariane_broker.rpc.translation.transaction_wire import (
    Reached,
    end_request,
    end_result,
    half_request,
    half_result,
)
from ariane_broker.transactions.ending import EndOutcome, EndRequest, TransactionEnds
from ariane_broker.transactions.halves import HalfOutcome, HalfRequest, Halves
from ariane_record.layout import Host
from ariane_servicekit.errors import ServiceError, field_invalid

ENTRIES_MAX: Final = 256
"""Half messages of one request, and ends of one."""


class UpdateParts(NamedTuple):
    """The parts that work on requests."""

    log: BrokerLog
    """Where everything goes."""
    halves: Halves
    """Stores half messages."""
    ends: TransactionEnds
    """Ends transactions."""
    broker_name: str
    """The name of the broker in answers."""
    now_ms: Callable[[], int]
    """Milliseconds since the epoch."""
    body_bytes_max: int
    """Largest body of a message."""
    call_bytes_max: int
    """Largest record of a half message."""
    next_unique_id: Callable[[], str]
    """Makes ids of messages that come without."""
    cluster_name: str
    """The cluster of this broker."""
    service_error: Callable[[Exception], ServiceError]
    """Makes errors of the store public."""


class _ReadRequest(NamedTuple):
    """What a request asks for."""

    halves: Sequence[HalfRequest | ServiceError]
    ends: Sequence[EndRequest]

    @property
    def demands(self) -> Sequence[Demand]:
        """What some of it must reach beyond what the broker promises."""
        found = {*map(_demand_of, self.halves), *(end.demand for end in self.ends)}
        return [demand for demand in found if demand is not None]


class TransactionUpdates:
    """Works on requests."""

    def __init__(self, parts: UpdateParts) -> None:
        self._parts = parts

    def work(
        self, request: transaction_pb.UpdateTransactionsRequest, born_host: Host
    ) -> (
        transaction_pb.UpdateTransactionsResponse
        | Awaitable[transaction_pb.UpdateTransactionsResponse]
    ):
        """Do what a request asks for; return the answer, or an awaitable of it.

        Raises:
            ServiceError: FIELD_INVALID; nothing was done.
        """
        for field in ("half_messages", "ends"):
            count = len(getattr(request, field))
            if count > ENTRIES_MAX:
                raise field_invalid(field, f"must be at most {ENTRIES_MAX}", count)
        parts = self._parts
        halves = self._halves_of(request) if request.half_messages else ()
        asked = _ReadRequest(halves, list(map(end_request, request.ends)))
        if parts.halves.need_topics(asked.halves):
            return self._work_later(asked, born_host)
        stored = parts.halves.store(asked.halves, born_host)
        ended = parts.ends.end(asked.ends)
        if parts.log.promise.waits or None in ended or asked.demands:
            return self._wait(asked, stored, ended)
        return self._answer(asked, stored, ended, {None: parts.log.promise.level})

    def _halves_of(
        self, request: transaction_pb.UpdateTransactionsRequest
    ) -> Sequence[HalfRequest | ServiceError]:
        parts = self._parts
        defaults = EncodingDefaults(
            parts.next_unique_id, parts.now_ms(), parts.body_bytes_max, parts.cluster_name
        )
        return [
            half_request(half, position, defaults, parts.call_bytes_max)
            for position, half in enumerate(request.half_messages)
        ]

    async def _work_later(
        self, asked: _ReadRequest, born_host: Host
    ) -> transaction_pb.UpdateTransactionsResponse:
        """Make topics first."""
        requests = await self._parts.halves.with_topics(asked.halves)
        asked = asked._replace(halves=requests)
        stored = self._parts.halves.store(requests, born_host)
        return await self._wait(asked, stored, self._parts.ends.end(asked.ends))

    async def _wait(
        self,
        asked: _ReadRequest,
        stored: Sequence[HalfOutcome],
        ended: Sequence[EndOutcome | None],
    ) -> transaction_pb.UpdateTransactionsResponse:
        """Finish what had to wait, and wait for what the broker promises, and what was demanded."""
        ended = await self._parts.ends.finish(asked.ends, ended)
        reached: dict[Demand | None, Reached] = {None: await self._parts.log.promised()}
        demands = asked.demands
        levels = await asyncio.gather(*map(self._reached, demands))
        reached.update(zip(demands, levels, strict=True))
        return self._answer(asked, stored, ended, reached)

    async def _reached(self, demand: Demand) -> Reached:
        """Wait for what some demand; it is no matter of the others if they do not get it."""
        log = self._parts.log
        try:
            return await log.promises.demanded(demand).kept(log.store.max_offset)
        except ServiceError as error:
            return error

    def _answer(
        self,
        asked: _ReadRequest,
        stored: Sequence[HalfOutcome],
        ended: Sequence[EndOutcome | None],
        reached: Mapping[Demand | None, Reached],
    ) -> transaction_pb.UpdateTransactionsResponse:
        name, service_error = self._parts.broker_name, self._parts.service_error
        return transaction_pb.UpdateTransactionsResponse(
            half_messages=[
                half_result(each, reached[_demand_of(request)], service_error)
                for request, each in zip(asked.halves, stored, strict=True)
            ],
            ends=[
                end_result(each, reached[request.demand], name, service_error)
                for request, each in zip(asked.ends, ended, strict=True)
                if each
            ],
        )


def _demand_of(request: HalfRequest | ServiceError) -> Demand | None:
    return request.demand if isinstance(request, HalfRequest) else None
