"""Transactions on the wire, to and from what use cases speak."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.transactions.checking import Answer
from ariane_broker.transactions.transaction_records import HalfMessage, Outcome
from ariane_broker.wire_time import span_of, time_of
from ariane_servicekit.errors import field_invalid

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


def outcome_of(value: client_pb.TransactionOutcome.ValueType) -> Outcome:
    """The outcome that a request asks for.

    Raises:
        ServiceError: FIELD_INVALID when it is none.
    """
    outcome = _OUTCOMES_OF.get(value)
    if outcome is None:
        raise field_invalid("outcome", "must be commit or rollback", value)
    return outcome


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
