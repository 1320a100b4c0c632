"""``TransactionService``: settles half messages, and the batches of Spark queries."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceServicer
from ariane.common.v1 import access_pb2 as access
from ariane_broker.rpc.peer_address import peer_host
from ariane_broker.rpc.transaction_updates import TransactionUpdates
from ariane_broker.rpc.translation.sink_wire import attempts_of
from ariane_broker.rpc.translation.transaction_wire import (
    ANSWERS,
    half_message,
    stage_request,
)
from ariane_broker.rpc.translation.wire_time import seconds_of, time_of
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_staging import BatchStaging
from ariane_broker.spark_batches.records.batch_records import BatchKey, Contents
from ariane_broker.transactions.checking import TransactionChecks
from ariane_broker.transactions.ending import TransactionEnds
from ariane_broker.transactions.half_list import HalfList
from ariane_servicekit import in_turns
from ariane_servicekit.security.gate.asking import require_publish, require_sink


class TransactionServicer(TransactionServiceServicer):
    """Translates requests about transactions."""

    asked_methods: Final = frozenset(
        {"UpdateTransactions", "StageBatchRecords", "CommitBatch", "AbortBatch", "GetBatchProgress"}
    )
    """Methods that ask for the rights on what their handles touch."""

    def __init__(
        self,
        ends: TransactionEnds,
        updates: TransactionUpdates,
        checks: TransactionChecks,
        half_list: HalfList,
        *,
        staging: BatchStaging,
        batches: BatchCommits,
    ) -> None:
        self._ends = ends
        self._updates = updates
        self._checks = checks
        self._half_list = half_list
        self._staging = staging
        self._batches = batches

    def UpdateTransactions(
        self,
        request: transaction_pb.UpdateTransactionsRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> (
        transaction_pb.UpdateTransactionsResponse
        | Awaitable[transaction_pb.UpdateTransactionsResponse]
    ):
        """End transactions."""
        return self._updates.work(request)

    async def CheckTransaction(
        self,
        request: transaction_pb.CheckTransactionRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.CheckTransactionResponse:
        """Ask a producer for the outcome of a transaction."""
        wait_seconds = seconds_of(request.wait_duration, "wait_duration")
        checked = await self._checks.check(
            request.transaction_id, request.check_count, wait_seconds
        )
        return transaction_pb.CheckTransactionResponse(
            outcome=ANSWERS[checked.answer], client_id=checked.client_id, cause=checked.cause
        )

    async def ListHalfMessages(
        self,
        request: transaction_pb.ListHalfMessagesRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.ListHalfMessagesResponse:
        """List half messages without an outcome."""
        found = await self._half_list.page(
            request.begin_queue_offset, request.page_size, request.page_token
        )
        return transaction_pb.ListHalfMessagesResponse(
            half_messages=await in_turns(map(half_message, found.page.entries)),
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
        """Park a half message."""
        duplicate = await self._ends.park(request.transaction_id, request.check_count)
        return transaction_pb.ParkTransactionResponse(duplicate=duplicate)

    async def StageBatchRecords(
        self,
        request: transaction_pb.StageBatchRecordsRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.StageBatchRecordsResponse:
        """Stage records of one attempt."""
        self._check_sink(access.ACTION_UPDATE, request.query_id)
        count = await self._staging.stage(stage_request(request), peer_host(context.peer()))
        return transaction_pb.StageBatchRecordsResponse(record_count=count)

    async def CommitBatch(
        self, request: transaction_pb.CommitBatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> transaction_pb.CommitBatchResponse:
        """Make the named attempts visible."""
        self._check_sink(access.ACTION_UPDATE, request.query_id)
        committed = await self._batches.commit(
            BatchKey(request.query_id, request.batch_id),
            attempts_of(request.attempts),
            Contents(request.record_count, request.content_sum),
        )
        return transaction_pb.CommitBatchResponse(
            duplicate=committed.duplicate, record_count=committed.record_count
        )

    async def AbortBatch(
        self, request: transaction_pb.AbortBatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> transaction_pb.AbortBatchResponse:
        """Drop staged records."""
        self._check_sink(access.ACTION_UPDATE, request.query_id)
        committed = await self._batches.abort(BatchKey(request.query_id, request.batch_id))
        return transaction_pb.AbortBatchResponse(committed=committed)

    async def GetBatchProgress(
        self,
        request: transaction_pb.GetBatchProgressRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> transaction_pb.GetBatchProgressResponse:
        """Return the last committed batch."""
        self._check_sink(access.ACTION_GET, request.query_id)
        return transaction_pb.GetBatchProgressResponse(
            batch_id=self._batches.progress_of(request.query_id)
        )

    def _check_sink(self, action: int, query_id: str) -> None:
        """Ask for the right on a sink, and for that on its topic if it has only one.

        A sink whose rows name topics was asked for each of them when it staged.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        note = self._batches.table.homes.get(query_id)
        if note is None:
            require_sink(action, query_id, "")
        else:
            require_sink(action, query_id, note.owner, note.topic)
        if note is not None and note.topic and action != access.ACTION_GET:
            require_publish(note.topic)
