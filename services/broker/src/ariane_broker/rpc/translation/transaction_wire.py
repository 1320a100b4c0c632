"""Conversion of transactions and Spark's batch transactions between wire and use cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_broker.clients.outbox import TransactionAsked
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.translation.append_wire import INT32, INT64, column_of, table_of
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.stored_message import fill_position, message_of_topic
from ariane_broker.rpc.translation.wire_time import span_of, time_of
from ariane_broker.spark_batches.records.batch_records import AttemptKey, BatchKey, StageRequest
from ariane_broker.spark_batches.records.stage_format import StagedBlock
from ariane_broker.transactions.checking import Answer
from ariane_broker.transactions.ending import EndOutcome, EndRequest
from ariane_broker.transactions.transaction_records import HalfMessage, Outcome
from ariane_record import PropertyName
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.error_status import status_of

ServiceErrorOf: TypeAlias = Callable[[Exception], ServiceError]
"""Makes errors of the store public."""

Reached: TypeAlias = AcknowledgedLevel | ServiceError
"""The level that was reached, or why a demanded one was not."""

OUTCOMES: Final = {
    Outcome.COMMIT: client_pb.TRANSACTION_OUTCOME_COMMIT,
    Outcome.ROLLBACK: client_pb.TRANSACTION_OUTCOME_ROLLBACK,
}
ANSWERS: Final = {
    Answer.UNKNOWN: client_pb.TRANSACTION_OUTCOME_UNKNOWN,
    Answer.COMMIT: client_pb.TRANSACTION_OUTCOME_COMMIT,
    Answer.ROLLBACK: client_pb.TRANSACTION_OUTCOME_ROLLBACK,
}
_OUTCOMES_OF: Final = {value: outcome for outcome, value in OUTCOMES.items()}
_ANSWERS_OF: Final = {value: answer for answer, value in ANSWERS.items()}


def answer_of(value: client_pb.TransactionOutcome.ValueType) -> Answer:
    """What a producer answers; what is no answer means that it does not know."""
    return _ANSWERS_OF.get(value, Answer.UNKNOWN)


def half_message(half: HalfMessage) -> transaction_pb.HalfMessage:
    """A half message without an outcome."""
    return transaction_pb.HalfMessage(
        transaction_id=half.transaction_id,
        unique_id=half.transaction_id,
        topic=half.topic,
        producer_group=half.producer_group,
        store_time=time_of(half.store_timestamp_ms),
        immunity_duration=None if half.immunity_ms is None else span_of(half.immunity_ms / 1000),
        queue_offset=half.queue_offset,
        keys=half.keys,
        parked=half.parked,
    )


def check_of(
    asked: TransactionAsked, *, broker_name: str, reads_records: bool
) -> client_pb.TransactionCheck:
    """A question how a transaction ended, in the form that the client reads."""
    check = client_pb.TransactionCheck(
        transaction_id=asked.transaction_id,
        unique_id=asked.transaction_id,
        check_count=asked.check_count,
    )
    if reads_records:
        check.record = asked.record
        return check
    # Its own topic is the one of all half messages.
    message = message_of_topic(asked.record, PropertyName.REAL_TOPIC, broker_name)
    check.message.CopyFrom(message)
    return check


def end_request(end: transaction_pb.TransactionToEnd) -> EndRequest:
    """The end of a transaction in a request.

    Raises:
        ServiceError: FIELD_INVALID for its demand.
    """
    return EndRequest(
        end.topic,
        end.transaction_id,
        end.unique_id,
        _OUTCOMES_OF.get(end.outcome),
        end.producer_group,
        demand_of(end.required_level, end.in_sync_min),
    )


def fill_end_result(
    ended: EndOutcome,
    reached: Reached,
    broker_name: str,
    service_error: ServiceErrorOf,
    result: transaction_pb.TransactionEndResult,
) -> None:
    """Say in an empty result what became of the end of a transaction."""
    if isinstance(ended, Exception):
        result.error.CopyFrom(status_of(service_error(ended)))
        return
    if isinstance(reached, ServiceError):
        result.error.CopyFrom(status_of(reached))
        return
    result.outcome = OUTCOMES[ended.outcome]
    if ended.place is not None:
        fill_position(ended.place, broker_name, result.position)
    result.acknowledged_level = LEVELS[reached]
    result.duplicate = ended.duplicate


def stage_request(request: StageBatchRecordsRequest) -> StageRequest:
    """What a call wants staged; its columns are not compared with its records yet.

    Raises:
        ServiceError: BLOCK_CORRUPTED.
    """
    return StageRequest(
        BatchKey(request.query_id, request.batch_id),
        AttemptKey(request.partition_id, request.attempt_token),
        _staged_block(request),
        request.record_count_before if request.HasField("record_count_before") else None,
    )


def _staged_block(request: StageBatchRecordsRequest) -> StagedBlock:
    count = len(request.record_sizes) // INT32.itemsize
    times_ms = request.delivery_times_ms or bytes(INT64.itemsize * count)
    try:
        return StagedBlock(
            table_of(request, (request.topic,), (count,), request.records),
            column_of(request.queue_ids, INT32, "queue ids", count),
            column_of(times_ms, INT64, "delivery times", count),
        )
    except ValueError as error:
        raise block_corrupted(-1, str(error)) from error
