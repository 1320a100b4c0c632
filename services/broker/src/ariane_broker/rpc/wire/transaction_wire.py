"""Transactions on the wire, to and from what use cases speak."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.wire.append_wire import LEVELS
from ariane_broker.rpc.wire.stored_message import position_of
from ariane_broker.rpc.wire.wire_time import span_of, time_of
from ariane_broker.transactions.checking import Answer
from ariane_broker.transactions.ending import Ended, EndWish
from ariane_broker.transactions.halves_together import HalfWish
from ariane_broker.transactions.transaction_records import HalfMessage, Outcome

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


def half_wish(half: transaction_pb.HalfMessageToStore) -> HalfWish:
    """A half message that a stream asks to store."""
    queue_id = half.queue_id if half.HasField("queue_id") else None
    return HalfWish(half.topic, queue_id, half.producer_group, half.message)


def half_result(
    transaction_id: str, level: AcknowledgedLevel, *, duplicate: bool = False
) -> transaction_pb.HalfMessageResult:
    """The answer to a half message that is stored."""
    return transaction_pb.HalfMessageResult(
        transaction_id=transaction_id, acknowledged_level=LEVELS[level], duplicate=duplicate
    )


def end_wish(request: transaction_pb.EndTransactionRequest) -> EndWish:
    """An end that a request asks for."""
    return EndWish(
        request.topic,
        request.transaction_id,
        request.unique_id,
        _OUTCOMES_OF.get(request.outcome),
        request.producer_group,
    )


def end_response(ended: Ended, broker_name: str) -> transaction_pb.EndTransactionResponse:
    """The answer to an end."""
    return transaction_pb.EndTransactionResponse(
        outcome=OUTCOMES[ended.outcome],
        position=None if ended.message is None else position_of(ended.message, broker_name),
        acknowledged_level=LEVELS[ended.level],
        duplicate=ended.duplicate,
    )
