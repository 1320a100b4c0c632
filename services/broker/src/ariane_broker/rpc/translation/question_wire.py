"""What clients are asked, and what they say of themselves, from and to messages of the contract."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import islice
from typing import Final

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane_broker.clients.client_admission import WORD_LENGTH_MAX
from ariane_broker.clients.outbox import ConsumptionAsked
from ariane_broker.clients.queue_hold import CAUSE_LENGTH_MAX, HOLDS_MAX, HoldReason, QueueHold
from ariane_broker.rpc.translation.stored_message import message_of_topic
from ariane_broker.rpc.translation.wire_time import span_of
from ariane_record import PropertyName
from ariane_record.control_characters import shown

STATE_BYTES_MAX: Final = 3 << 20
"""Less than gRPC's default limit of an answer."""

ANSWER_CAUSE_LENGTH_MAX: Final = 1024

_REASONS: Final = {
    question_pb.HOLD_REASON_FAILED_IN_ORDER: HoldReason.FAILED_IN_ORDER,
    question_pb.HOLD_REASON_REQUESTED: HoldReason.REQUESTED,
    question_pb.HOLD_REASON_PAUSED: HoldReason.PAUSED,
    question_pb.HOLD_REASON_BREAKER_OPEN: HoldReason.BREAKER_OPEN,
}

_REASON_VALUES: Final = {reason: value for value, reason in _REASONS.items()}


def consumption_of(
    asked: ConsumptionAsked, *, broker_name: str, reads_records: bool
) -> question_pb.ConsumeQuestion:
    """The question to consume a message, in the form that the client reads."""
    question = question_pb.ConsumeQuestion(
        question_id=asked.question_id, consumer_group=asked.consumer_group
    )
    if reads_records:
        question.record = asked.record
        return question
    # A dead letter or a message tried again gets the topic that it was sent to.
    message = message_of_topic(asked.record, PropertyName.RETRY_TOPIC, broker_name)
    question.message.CopyFrom(message)
    return question


def bounded_state(state: question_pb.ClientState) -> question_pb.ClientState:
    """A client's state, without its lists if they are too large."""
    if state.ByteSize() <= STATE_BYTES_MAX:
        return state
    few = question_pb.ClientState(
        question_id=state.question_id, stacks_refusal=state.stacks_refusal, truncated=True
    )
    few.facts.update(state.facts)
    if few.ByteSize() > STATE_BYTES_MAX:
        few = question_pb.ClientState(question_id=state.question_id, truncated=True)
    return few


def bounded_answer(answer: question_pb.ConsumeAnswer) -> question_pb.ConsumeAnswer:
    """A client's outcome of a message, with the cause in one line of limited length."""
    bounded = question_pb.ConsumeAnswer()
    bounded.CopyFrom(answer)
    bounded.cause = shown(answer.cause[:ANSWER_CAUSE_LENGTH_MAX])[:ANSWER_CAUSE_LENGTH_MAX]
    return bounded


def holds_of(
    holds: Iterable[question_pb.QueueHold], groups: Container[str]
) -> tuple[QueueHold, ...]:
    """Convert what a client says of its groups; reasons that are not known are left out."""
    return tuple(
        QueueHold(
            consumer_group=hold.consumer_group,
            topic=hold.topic[:WORD_LENGTH_MAX],
            broker_name=hold.broker_name[:WORD_LENGTH_MAX],
            queue_id=hold.queue_id,
            reason=_REASONS[hold.reason],
            queue_offset=hold.queue_offset,
            attempts=hold.attempts,
            age_ms=hold.age.ToMilliseconds(),
            cause=shown(hold.cause[:CAUSE_LENGTH_MAX])[:CAUSE_LENGTH_MAX],
            remaining_ms=(hold.remaining.ToMilliseconds() if hold.HasField("remaining") else None),
        )
        for hold in islice(holds, HOLDS_MAX)
        if hold.reason in _REASONS and hold.consumer_group in groups
    )


def hold_message(hold: QueueHold, since_ms: int) -> question_pb.QueueHold:
    """A hold as a message for operators, so many milliseconds after the client has reported it."""
    remaining_ms = None if hold.remaining_ms is None else max(0, hold.remaining_ms - since_ms)
    return question_pb.QueueHold(
        consumer_group=hold.consumer_group,
        topic=hold.topic,
        broker_name=hold.broker_name,
        queue_id=hold.queue_id,
        reason=_REASON_VALUES[hold.reason],
        queue_offset=hold.queue_offset,
        attempts=hold.attempts,
        age=span_of((hold.age_ms + since_ms) / 1000),
        cause=hold.cause,
        remaining=None if remaining_ms is None else span_of(remaining_ms / 1000),
    )
