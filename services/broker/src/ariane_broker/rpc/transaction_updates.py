"""Requests of producers that end transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import Demand
from ariane_broker.rpc.translation.transaction_wire import Reached, end_request, fill_end_result
from ariane_broker.transactions.ending import EndOutcome, EndRequest, TransactionEnds
from ariane_servicekit.errors import ServiceError, field_invalid

ENDS_MAX: Final = 256
"""Ends in one request."""


@dataclass(frozen=True, slots=True)
class TransactionUpdates:
    """Works on requests."""

    log: BrokerLog
    """Where everything goes."""
    ends: TransactionEnds
    """Ends transactions."""
    broker_name: str
    """The name of the broker in answers."""
    service_error: Callable[[Exception], ServiceError]
    """Makes errors of the store public."""

    def work(
        self, request: transaction_pb.UpdateTransactionsRequest
    ) -> (
        transaction_pb.UpdateTransactionsResponse
        | Awaitable[transaction_pb.UpdateTransactionsResponse]
    ):
        """Do what a request asks for; return the answer, or an awaitable of it.

        Raises:
            ServiceError: FIELD_INVALID; nothing was done.
        """
        if len(request.ends) > ENDS_MAX:
            raise field_invalid("ends", f"must be at most {ENDS_MAX}", len(request.ends))
        asked = list(map(end_request, request.ends))
        ended = self.ends.end(asked)
        demands = [*{end.demand for end in asked if end.demand is not None}]
        if self.log.promise.waits or None in ended or demands:
            return self._wait(asked, ended, demands)
        return self._answer(asked, ended, {None: self.log.promise.level})

    async def _wait(
        self,
        asked: Sequence[EndRequest],
        ended: Sequence[EndOutcome | None],
        demands: Sequence[Demand],
    ) -> transaction_pb.UpdateTransactionsResponse:
        """Finish what had to wait, and wait for what the broker promises, and what was demanded."""
        ended = await self.ends.finish(asked, ended)
        reached: dict[Demand | None, Reached] = {None: await self.log.promised()}
        levels = await asyncio.gather(*map(self._reached, demands))
        reached.update(zip(demands, levels, strict=True))
        return self._answer(asked, ended, reached)

    async def _reached(self, demand: Demand) -> Reached:
        """Wait for what some demand; it is no matter of the others if they do not get it."""
        try:
            return await self.log.promises.demanded(demand).kept(self.log.store.max_offset)
        except ServiceError as error:
            return error

    def _answer(
        self,
        asked: Sequence[EndRequest],
        ended: Sequence[EndOutcome | None],
        reached: Mapping[Demand | None, Reached],
    ) -> transaction_pb.UpdateTransactionsResponse:
        answer = transaction_pb.UpdateTransactionsResponse()
        for request, each in zip(asked, ended, strict=True):
            if each is not None:
                fill_end_result(
                    each,
                    reached[request.demand],
                    self.broker_name,
                    self.service_error,
                    answer.ends.add(),
                )
        return answer
