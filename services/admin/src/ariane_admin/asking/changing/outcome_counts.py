"""Counting the transactions that a decision would end, without deciding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.transaction.v1.checked_transaction_service_pb2 import (
    GetCheckedTransactionRequest,
    ListParkedTransactionsRequest,
)
from ariane_admin.asking.changing.bulk_transactions import ParkedSelection
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, PAGE_SIZE, answer_to_question

if TYPE_CHECKING:
    from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
        CheckedTransactionServiceAsyncStub,
    )


async def outcome_counts(
    stub: CheckedTransactionServiceAsyncStub, peer: str, selection: ParkedSelection
) -> dict[str, int]:
    """The numbers of selected transactions without and with an outcome.

    Raises:
        CallError: The checker did not answer, or does not know one of them.
    """
    if selection.transaction_ids:
        decided = 0
        for each in selection.transaction_ids:
            one = GetCheckedTransactionRequest(transaction_id=each)
            call = stub.GetCheckedTransaction(one, timeout=CALL_SECONDS_MAX)
            decided += bool((await answer_to_question(call, peer)).transaction.outcome)
        return {"undecided": len(selection.transaction_ids) - decided, "decided": decided}
    request = ListParkedTransactionsRequest(
        producer_group=selection.producer_group, topic=selection.topic, page_size=PAGE_SIZE
    )
    count = 0
    while True:
        page = stub.ListParkedTransactions(request, timeout=CALL_SECONDS_MAX)
        answer = await answer_to_question(page, peer)
        count += len(answer.transactions)
        request.page_token = answer.next_page_token
        if not request.page_token:
            return {"undecided": count, "decided": 0}
