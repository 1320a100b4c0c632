"""Conversion between the contract's messages and this service's values."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.broker.v1 import transaction_service_pb2 as broker_pb
from ariane.broker.v1.client_service_pb2 import TransactionOutcome
from ariane.transaction.v1 import checked_transaction_pb2 as transaction_pb
from ariane.transaction.v1 import checker_service_pb2 as checker_pb
from ariane_servicekit import field_invalid
from ariane_txn_checker.database.leases import LET_GO
from ariane_txn_checker.transaction import (
    CheckedTransaction,
    CheckRecord,
    HalfMessage,
    HalfMessagePage,
    Lease,
)


def time_of(time_ms: int | None) -> Timestamp | None:
    """A timestamp from milliseconds since 1970; None stays None."""
    if time_ms is None:
        return None
    time = Timestamp()
    time.FromMilliseconds(time_ms)
    return time


def span_of(span_ms: int) -> Duration:
    """A duration from milliseconds."""
    span = Duration()
    span.FromMilliseconds(span_ms)
    return span


def milliseconds_of(time: Timestamp, field: str) -> int:
    """Milliseconds since 1970, rounded down.

    Raises:
        ServiceError: FIELD_INVALID for an illegal timestamp.
    """
    try:
        return time.ToMilliseconds()
    except ValueError:
        raise field_invalid(field, "must be a time in the years 1 to 9999") from None


def half_message_page(answer: broker_pb.ListHalfMessagesResponse) -> HalfMessagePage:
    """A page of half messages from a broker's answer."""
    return HalfMessagePage(
        half_messages=[_half_message(each) for each in answer.half_messages],
        next_page_token=answer.next_page_token,
        half_queue_offset_end=answer.half_queue_offset_end,
        op_queue_offset_end=answer.op_queue_offset_end,
        answer_ms=answer.answer_time.ToMilliseconds(),
    )


def _half_message(half: broker_pb.HalfMessage) -> HalfMessage:
    own = half.HasField("immunity_duration")
    return HalfMessage(
        transaction_id=half.transaction_id,
        unique_id=half.unique_id,
        topic=half.topic,
        producer_group=half.producer_group,
        keys=tuple(half.keys),
        store_ms=half.store_time.ToMilliseconds(),
        immunity_ms=half.immunity_duration.ToMilliseconds() if own else None,
        half_queue_offset=half.queue_offset,
        parked=half.parked,
    )


def transaction_message(
    transaction: CheckedTransaction, check_count_max: int
) -> transaction_pb.CheckedTransaction:
    """A transaction for operators."""
    return transaction_pb.CheckedTransaction(
        transaction_id=transaction.key.transaction_id,
        unique_id=transaction.unique_id,
        cluster_name=transaction.key.broker.cluster_name,
        broker_name=transaction.key.broker.broker_name,
        topic=transaction.topic,
        producer_group=transaction.producer_group,
        keys=transaction.keys,
        half_queue_offset=transaction.half_queue_offset,
        store_time=time_of(transaction.store_ms),
        first_seen_time=time_of(transaction.first_seen_ms),
        next_check_time=time_of(transaction.next_check_ms),
        check_count=transaction.check_count,
        check_count_max=check_count_max,
        state=transaction_pb.CheckedTransactionState.ValueType(transaction.state),
        outcome=TransactionOutcome.ValueType(transaction.outcome),
        decider=transaction.decider,
        cause=transaction.cause,
        end_time=time_of(transaction.end_ms),
    )


def check_message(check: CheckRecord) -> transaction_pb.TransactionCheckRecord:
    """A check for operators."""
    return transaction_pb.TransactionCheckRecord(
        check_number=check.check_number,
        ask_time=time_of(check.ask_ms),
        answer_time=time_of(check.answer_ms),
        answer=TransactionOutcome.ValueType(check.answer),
        client_id=check.client_id,
        checker_id=check.checker_id,
        failure_reason=check.failure_reason,
    )


def lease_message(lease: Lease) -> checker_pb.CheckerLease:
    """A lease for operators."""
    return checker_pb.CheckerLease(
        cluster_name=lease.broker.cluster_name,
        broker_name=lease.broker.broker_name,
        checker_id=lease.checker_id,
        fencing_token=lease.fencing_token,
        expire_time=time_of(None if lease.expire_ms == LET_GO else lease.expire_ms),
        half_queue_offset=lease.half_queue_offset,
        op_queue_offset=lease.op_queue_offset,
    )
