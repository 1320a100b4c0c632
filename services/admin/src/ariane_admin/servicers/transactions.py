"""``TransactionService``: the transactions of the checkers, from any of them."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grpc import aio

from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.admin.v1.transaction_service_pb2_grpc import TransactionServiceServicer
from ariane.transaction.v1 import checked_transaction_service_pb2 as checked_pb
from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
    CheckedTransactionServiceStub,
)
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, answer_from, changed_at
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_servicekit import feature_not_available

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
        CheckedTransactionServiceAsyncStub,
    )

_Context = aio.ServicerContext[Any, Any]
_Answer = TypeVar("_Answer")


class TransactionServicer(TransactionServiceServicer):
    """Forwards queries and decisions to a checker.

    Args:
        cluster: Has channels to every process.
        checkers: Addresses of checkers, "host:port"; checkers of one database give equal answers.
    """

    asked_methods: Final = frozenset(
        {
            *("GetTransaction", "ListTransactionChecks"),
            *("DecideTransaction", "ResumeTransaction"),
        }
    )
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, cluster: ClusterAccess, checkers: Sequence[str]) -> None:
        self._doors = cluster.doors
        self._checkers = checkers

    async def before(
        self, method: str, request: transaction_pb.DecideTransactionRequest
    ) -> transaction_pb.GetTransactionResponse:
        """The transaction as it is before it is changed."""
        return await self._get(request.transaction_id)

    async def ListTransactions(
        self, request: transaction_pb.ListTransactionsRequest, context: _Context
    ) -> transaction_pb.ListTransactionsResponse:
        """List transactions under check, or parked ones."""
        fields = {
            "producer_group": request.producer_group,
            "topic": request.topic,
            "broker_name": request.broker_name,
            "page_size": request.page_size,
            "page_token": request.page_token,
        }

        answer: Any  # Both have the same fields.
        if request.parked:
            parked = checked_pb.ListParkedTransactionsRequest(**fields)  # type: ignore[arg-type]
            answer = await self._ask(lambda stub: stub.ListParkedTransactions, parked)
        else:
            waiting = checked_pb.ListCheckedTransactionsRequest(**fields)  # type: ignore[arg-type]
            answer = await self._ask(lambda stub: stub.ListCheckedTransactions, waiting)
        return transaction_pb.ListTransactionsResponse(
            transactions=answer.transactions, next_page_token=answer.next_page_token
        )

    async def GetTransaction(
        self, request: transaction_pb.GetTransactionRequest, context: _Context
    ) -> transaction_pb.GetTransactionResponse:
        """Read one transaction."""
        return await self._get(request.transaction_id)

    async def ListTransactionChecks(
        self, request: transaction_pb.ListTransactionChecksRequest, context: _Context
    ) -> transaction_pb.ListTransactionChecksResponse:
        """List the checks of one transaction."""
        asked = checked_pb.ListTransactionChecksRequest(
            transaction_id=request.transaction_id,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        answer = await self._ask(lambda stub: stub.ListTransactionChecks, asked)
        return transaction_pb.ListTransactionChecksResponse(
            checks=answer.checks, next_page_token=answer.next_page_token
        )

    async def DecideTransaction(
        self, request: transaction_pb.DecideTransactionRequest, context: _Context
    ) -> transaction_pb.DecideTransactionResponse:
        """End a transaction by an operator's decision."""
        asked = checked_pb.DecideTransactionRequest(
            transaction_id=request.transaction_id, outcome=request.outcome, cause=request.cause
        )
        # The checker calls a broker: that time is added.
        change_s = 3 * CALL_SECONDS_MAX
        answer = await self._ask(lambda stub: stub.DecideTransaction, asked, change_s=change_s)
        return transaction_pb.DecideTransactionResponse(transaction=answer.transaction)

    async def ResumeTransaction(
        self, request: transaction_pb.ResumeTransactionRequest, context: _Context
    ) -> transaction_pb.ResumeTransactionResponse:
        """Let producers be asked again."""
        asked = checked_pb.ResumeTransactionChecksRequest(transaction_id=request.transaction_id)
        answer = await self._ask(
            lambda stub: stub.ResumeTransactionChecks, asked, change_s=CALL_SECONDS_MAX
        )
        return transaction_pb.ResumeTransactionResponse(transaction=answer.transaction)

    async def _get(self, transaction_id: str) -> transaction_pb.GetTransactionResponse:
        asked = checked_pb.GetCheckedTransactionRequest(transaction_id=transaction_id)
        answer = await self._ask(lambda stub: stub.GetCheckedTransaction, asked)
        return transaction_pb.GetTransactionResponse(transaction=answer.transaction)

    async def _ask(
        self,
        method: Callable[[CheckedTransactionServiceAsyncStub], Callable[..., Awaitable[_Answer]]],
        request: Message,
        *,
        change_s: float = 0.0,
    ) -> _Answer:
        """The answer of the first reachable checker; repeating a decision is harmless.

        Args:
            method: Takes the method out of a stub.
            request: Its request.
            change_s: How long it may take to change something; 0: it changes nothing.
        """
        if not self._checkers:
            raise feature_not_available("this method, without a transaction checker (--checkers)")
        failure: CallError | None = None
        for address in self._checkers:
            stub = CheckedTransactionServiceStub(self._doors.client.channel(address))
            peer = f"transaction checker at {address}"
            try:
                if change_s:
                    return await changed_at(peer, method(stub), request, seconds_max=change_s)
                return await answer_from(peer, method(stub), request)
            except (ServiceUnavailable, DeadlinePassed) as error:
                failure = error
        assert failure is not None  # noqa: S101 - there is one checker at least
        raise failure
