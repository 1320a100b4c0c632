"""``TransactionService``: settles half messages, one by one or as the batch of a Spark query."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, NoReturn

from grpc import aio

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceServicer
from ariane_broker.record_wire import LEVELS
from ariane_broker.stored_message import position_of
from ariane_broker.transactions.checking import TransactionChecks
from ariane_broker.transactions.ending import TransactionEnds
from ariane_broker.transactions.half_list import HalfList
from ariane_broker.transactions.transaction_wire import (
    ANSWERS,
    OUTCOMES,
    half_message,
    outcome_of,
)
from ariane_broker.wire_time import seconds_of, time_of
from ariane_servicekit import feature_not_available


class TransactionServicer(TransactionServiceServicer):
    """Translates what is said of transactions."""

    def __init__(
        self,
        ends: TransactionEnds,
        checks: TransactionChecks,
        half_list: HalfList,
        *,
        broker_name: str,
    ) -> None:
        """Take the parts.

        Args:
            ends: Ends transactions.
            checks: Asks producers about them.
            half_list: Lists those without an outcome.
            broker_name: As it stands in answers.
        """
        self._ends = ends
        self._checks = checks
        self._half_list = half_list
        self._broker_name = broker_name

    async def EndTransaction(
        self,
        request: transaction_pb.EndTransactionRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.EndTransactionResponse:
        """End a transaction."""
        ended = await self._ends.end(
            request.topic,
            request.transaction_id,
            outcome_of(request.outcome),
            request.producer_group,
        )
        position = None if ended.message is None else position_of(ended.message, self._broker_name)
        return transaction_pb.EndTransactionResponse(
            outcome=OUTCOMES[ended.outcome],
            position=position,
            acknowledged_level=LEVELS[ended.level],
            duplicate=ended.duplicate,
        )

    async def CheckTransaction(
        self,
        request: transaction_pb.CheckTransactionRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.CheckTransactionResponse:
        """Ask a producer how a transaction ended."""
        wait_seconds = seconds_of(request.wait_duration, "wait_duration")
        checked = await self._checks.check(
            request.transaction_id, request.check_count, wait_seconds
        )
        return transaction_pb.CheckTransactionResponse(
            outcome=ANSWERS[checked.answer], client_id=checked.client_id
        )

    async def ListHalfMessages(
        self,
        request: transaction_pb.ListHalfMessagesRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.ListHalfMessagesResponse:
        """List half messages without an outcome."""
        found = self._half_list.page(
            request.begin_queue_offset, request.page_size, request.page_token
        )
        return transaction_pb.ListHalfMessagesResponse(
            half_messages=map(half_message, found.page.entries),
            next_page_token=found.page.next_page_token,
            half_queue_offset_end=found.half_queue_offset_end,
            op_queue_offset_end=found.op_queue_offset_end,
            answer_time=time_of(found.now_ms),
        )

    async def ParkTransaction(
        self,
        request: transaction_pb.ParkTransactionRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.ParkTransactionResponse:
        """Put a half message aside."""
        duplicate = await self._ends.park(request.transaction_id, request.check_count)
        return transaction_pb.ParkTransactionResponse(duplicate=duplicate)

    def StageBatchRecords(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("batch transactions")

    def CommitBatch(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("batch transactions")

    def AbortBatch(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("batch transactions")

    def GetBatchProgress(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("batch transactions")
