"""Questions of operators on the wire, and answers of clients, whose size is limited here."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane_broker.clients.outbox import ConsumptionAsked
from ariane_broker.rpc.translation.stored_message import message_of_topic
from ariane_record import PropertyName
from ariane_record.control_characters import shown

STATE_BYTES_MAX: Final = 3 << 20
"""Less than gRPC's default limit of an answer."""

CAUSE_LENGTH_MAX: Final = 1024


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
    bounded.cause = shown(answer.cause[:CAUSE_LENGTH_MAX])[:CAUSE_LENGTH_MAX]
    return bounded
