"""Questions of brokers to clients of this gateway."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ariane.broker.v1.client_service_pb2 import AttachResponse
from ariane_record.layout import PropertyName
from ariane_record.single.view import iter_messages
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue


class HowEnded(NamedTuple):
    """How did this transaction end?"""

    broker_name: str
    """Who asks."""
    client_id: str
    """Who is asked."""
    transaction_id: str
    """The transaction: the unique id of its half message."""
    topic: str
    """The topic that the message is for."""
    message: ReceivedMessage
    """The half message."""


class WhatState(NamedTuple):
    """What do you do now?"""

    broker_name: str
    """Who asks."""
    client_id: str
    """Who is asked."""
    question_id: str
    """Names the question."""
    with_stacks: bool
    """Whether to say what threads are at."""


class Consume(NamedTuple):
    """Consume this message now, and say what became of it."""

    broker_name: str
    """Who asks."""
    client_id: str
    """Who is asked."""
    question_id: str
    """Names the question."""
    topic: str
    """The topic that the message was sent to."""
    message: ReceivedMessage
    """The message."""


Question: TypeAlias = HowEnded | WhatState | Consume


def question_of(broker_name: str, response: AttachResponse) -> Question | None:
    """The question to a client that a broker asks; None for anything else that it says."""
    client_id = response.client_id
    if not client_id:
        return None
    kind = response.WhichOneof("content")
    if kind == "transaction_check":
        check = response.transaction_check
        message = _message_of(check.record, broker_name)
        topic = message.properties.get(PropertyName.REAL_TOPIC, message.topic)
        return HowEnded(broker_name, client_id, check.transaction_id, topic, message)
    if kind == "state_question":
        asked = response.state_question
        return WhatState(broker_name, client_id, asked.question_id, asked.with_stacks)
    if kind == "consume_question":
        wanted = response.consume_question
        message = _message_of(wanted.record, broker_name)
        topic = message.properties.get(PropertyName.RETRY_TOPIC, message.topic)
        return Consume(broker_name, client_id, wanted.question_id, topic, message)
    return None


def _message_of(record: bytes, broker_name: str) -> ReceivedMessage:
    view = next(iter_messages(record, np.array([len(record)])))
    return ReceivedMessage(view, MessageQueue(view.topic, broker_name, view.queue_id))
