"""``CheckedTransactionService`` and ``CheckerService``: calls of operators, translated."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from grpc import aio

from ariane.transaction.v1 import checked_transaction_service_pb2 as transaction_pb
from ariane.transaction.v1 import checker_service_pb2 as checker_pb
from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
    CheckedTransactionServiceServicer,
)
from ariane.transaction.v1.checker_service_pb2_grpc import CheckerServiceServicer
from ariane_servicekit import PageRequest
from ariane_servicekit.database import Database
from ariane_servicekit.security.gate.asking import require_publish, require_seen, require_subscribe
from ariane_txn_checker.database import (
    InquiryStore,
    LeaseStore,
    TransactionSelection,
)
from ariane_txn_checker.database.inquiries import PagePosition
from ariane_txn_checker.decisions import OperatorDecisions
from ariane_txn_checker.rpc.translation import (
    check_message,
    lease_message,
    milliseconds_of,
    time_of,
    transaction_message,
)
from ariane_txn_checker.transaction import BrokerKey, CheckedTransaction, Outcome
from ariane_txn_checker.watching.questioner import CheckCounts

_Context = aio.ServicerContext[Any, Any]

_POSITION_KINDS: Final = (int, str, str, str)


class CheckedTransactionServicer(CheckedTransactionServiceServicer):
    """Transactions of all brokers, from the database that the checkers share."""

    asked_methods: Final = frozenset(
        {
            "GetCheckedTransaction",
            "ListTransactionChecks",
            "DecideTransaction",
            "ResumeTransactionChecks",
        }
    )
    """Methods that ask for the rights on what their handles touch."""

    def __init__(
        self, database: Database, decisions: OperatorDecisions, *, check_count_max: int
    ) -> None:
        self._database = database
        self._inquiries = InquiryStore(database)
        self._decisions = decisions
        self._check_count_max = check_count_max

    async def GetCheckedTransaction(
        self, request: transaction_pb.GetCheckedTransactionRequest, context: _Context
    ) -> transaction_pb.GetCheckedTransactionResponse:
        """Read one transaction."""
        found = await self._decisions.find(request.transaction_id)
        require_subscribe((found.topic,))
        return transaction_pb.GetCheckedTransactionResponse(transaction=self._message(found))

    async def ListCheckedTransactions(
        self, request: transaction_pb.ListCheckedTransactionsRequest, context: _Context
    ) -> transaction_pb.ListCheckedTransactionsResponse:
        """List transactions under check."""
        bounded = request.HasField("store_time_end")
        end = milliseconds_of(request.store_time_end, "store_time_end") if bounded else None
        selection = TransactionSelection(
            request.producer_group, request.topic, request.broker_name, end
        )
        page = _page_request(request.page_size, request.page_token, f"checked:{selection}")
        found = await self._database.call(
            self._inquiries.under_check,
            selection,
            after=_position(page),
            limit=page.limit + 1,
        )
        taken = page.page_of(found, lambda each: _place(each, each.next_check_ms))
        return transaction_pb.ListCheckedTransactionsResponse(
            transactions=map(self._message, taken.entries), next_page_token=taken.next_page_token
        )

    async def ListParkedTransactions(
        self, request: transaction_pb.ListParkedTransactionsRequest, context: _Context
    ) -> transaction_pb.ListParkedTransactionsResponse:
        """List parked transactions."""
        selection = TransactionSelection(request.producer_group, request.topic, request.broker_name)
        page = _page_request(request.page_size, request.page_token, f"parked:{selection}")
        found = await self._database.call(
            self._inquiries.parked, selection, after=_position(page), limit=page.limit + 1
        )
        taken = page.page_of(found, lambda each: _place(each, each.end_ms))
        return transaction_pb.ListParkedTransactionsResponse(
            transactions=map(self._message, taken.entries), next_page_token=taken.next_page_token
        )

    async def ListTransactionChecks(
        self, request: transaction_pb.ListTransactionChecksRequest, context: _Context
    ) -> transaction_pb.ListTransactionChecksResponse:
        """List the checks of one transaction."""
        transaction = await self._decisions.find(request.transaction_id)
        require_seen(transaction.topic)
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"checks:{request.transaction_id}",
            kinds=(int,),
        )
        (after,) = page.last or (0,)
        found = await self._database.call(
            self._inquiries.checks, transaction.key, after=int(after), limit=page.limit + 1
        )
        taken = page.page_of(found, lambda each: (each.check_number,))
        return transaction_pb.ListTransactionChecksResponse(
            checks=map(check_message, taken.entries), next_page_token=taken.next_page_token
        )

    async def DecideTransaction(
        self, request: transaction_pb.DecideTransactionRequest, context: _Context
    ) -> transaction_pb.DecideTransactionResponse:
        """End a transaction by an operator's decision."""
        await self._check_publish(request.transaction_id)
        known = request.outcome in {int(outcome) for outcome in Outcome}
        outcome = Outcome(request.outcome) if known else Outcome.UNSPECIFIED
        decided = await self._decisions.decide(request.transaction_id, outcome, request.cause)
        return transaction_pb.DecideTransactionResponse(transaction=self._message(decided))

    async def ResumeTransactionChecks(
        self, request: transaction_pb.ResumeTransactionChecksRequest, context: _Context
    ) -> transaction_pb.ResumeTransactionChecksResponse:
        """Put a parked transaction under check again."""
        await self._check_publish(request.transaction_id)
        resumed = await self._decisions.resume(request.transaction_id)
        return transaction_pb.ResumeTransactionChecksResponse(transaction=self._message(resumed))

    async def _check_publish(self, transaction_id: str) -> None:
        """Ask for the right to send to a transaction's topic: to decide is to send or not.

        Raises:
            ServiceError: ACCESS_DENIED, TRANSACTION_NOT_FOUND.
        """
        require_publish((await self._decisions.find(transaction_id)).topic)

    def _message(self, transaction: CheckedTransaction) -> Any:
        return transaction_message(transaction, self._check_count_max)


class CheckerServicer(CheckerServiceServicer):
    """This checker's state, and the leases of all checkers."""

    def __init__(
        self, checker_id: str, database: Database, counts: Callable[[], CheckCounts]
    ) -> None:
        self._checker_id = checker_id
        self._database = database
        self._inquiries = InquiryStore(database)
        self._leases = LeaseStore(database)
        self._counts = counts

    async def GetCheckerState(
        self, request: checker_pb.GetCheckerStateRequest, context: _Context
    ) -> checker_pb.GetCheckerStateResponse:
        """Report this checker's state."""
        tally = await self._database.call(self._inquiries.tally, self._checker_id)
        counts = self._counts()
        return checker_pb.GetCheckerStateResponse(
            checker_id=self._checker_id,
            checked_transaction_count=tally.checked_count,
            parked_transaction_count=tally.parked_count,
            oldest_store_time=time_of(tally.oldest_store_ms),
            check_count=counts.checks,
            unanswered_check_count=counts.unanswered,
            decided_transaction_count=counts.decided,
        )

    async def ListCheckerLeases(
        self, request: checker_pb.ListCheckerLeasesRequest, context: _Context
    ) -> checker_pb.ListCheckerLeasesResponse:
        """List the leases."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope="leases",
            kinds=(str, str),
        )
        after = None if page.last is None else BrokerKey(*map(str, page.last))
        found = await self._database.call(self._leases.all, after=after, limit=page.limit + 1)
        taken = page.page_of(
            found, lambda each: (each.broker.cluster_name, each.broker.broker_name)
        )
        return checker_pb.ListCheckerLeasesResponse(
            leases=map(lease_message, taken.entries), next_page_token=taken.next_page_token
        )


def _page_request(page_size: int, page_token: str, scope: str) -> PageRequest:
    return PageRequest.of(
        page_size=page_size, page_token=page_token, scope=scope, kinds=_POSITION_KINDS
    )


def _position(page: PageRequest) -> PagePosition | None:
    if page.last is None:
        return None
    time_ms, cluster_name, broker_name, transaction_id = page.last
    return int(time_ms), str(cluster_name), str(broker_name), str(transaction_id)


def _place(transaction: CheckedTransaction, time_ms: int | None) -> PagePosition:
    broker = transaction.key.broker
    return time_ms or 0, broker.cluster_name, broker.broker_name, transaction.key.transaction_id
