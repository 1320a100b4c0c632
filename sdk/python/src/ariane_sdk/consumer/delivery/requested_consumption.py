"""Consuming a message at an operator's request, beside the messages of queues.

The message changes neither a window nor an offset. A failure of the listener is reported to the
operator, and the message is not tried again.
"""

from __future__ import annotations

import numpy as np

from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_CONSUMED,
    CONSUME_OUTCOME_RAISED,
    CONSUME_OUTCOME_REFUSED,
    CONSUME_OUTCOME_RETRY,
    ConsumeAnswer,
    ConsumeQuestion,
)
from ariane_record.errors import RecordError
from ariane_record.single.view import iter_messages
from ariane_sdk.client.listener import Deliver
from ariane_sdk.consumer.delivery.failed_messages import restore_topics
from ariane_sdk.consumer.delivery.hand_out import DeliveryGate
from ariane_sdk.errors import ConsumptionHeld, MessagesFailed
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.application_calls import text_of
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

CAUSE_LENGTH_MAX = 1024


class RequestedConsumption:
    """Hands messages that operators ask for to the listener of one consumer."""

    def __init__(self, deliver: Deliver, gate: DeliveryGate, *, group: str, clock: Clock) -> None:
        """``gate`` keeps the message apart from one that must be alone in work."""
        self._deliver = deliver
        self._gate = gate
        self._group = group
        self._clock = clock

    async def consume(self, question: ConsumeQuestion, broker_name: str) -> ConsumeAnswer:
        """Let the listener consume a message, and return the outcome.

        Args:
            question: The message and the group.
            broker_name: The broker that asks, whose message it is.
        """
        answer = ConsumeAnswer(question_id=question.question_id, outcome=CONSUME_OUTCOME_REFUSED)
        if question.consumer_group != self._group:
            answer.cause = f"the consumer is of group {self._group}"
            return answer
        try:
            [view] = iter_messages(question.record, np.array([len(question.record)]))
        except (RecordError, ValueError) as error:
            answer.cause = _one_line(f"the message cannot be read: {error}")
            return answer
        message = ReceivedMessage(view, MessageQueue(view.topic, broker_name, view.queue_id))
        restore_topics([message])
        logger.warning("an operator has the listener consume %r", message)
        await self._gate.enter()
        began_s = self._clock.monotonic_s()
        try:
            await self._deliver([message])
        except (ConsumptionHeld, MessagesFailed) as error:
            answer.outcome, answer.cause = CONSUME_OUTCOME_RETRY, _one_line(text_of(error))
        except Exception as error:  # noqa: BLE001 - the caller gets any error of a listener.
            answer.outcome, answer.cause = CONSUME_OUTCOME_RAISED, _one_line(text_of(error, repr))
        else:
            answer.outcome = CONSUME_OUTCOME_CONSUMED
        finally:
            self._gate.leave()
        answer.duration.FromMicroseconds(round((self._clock.monotonic_s() - began_s) * 1e6))
        return answer


def _one_line(text: str) -> str:
    return " ".join(text.split())[:CAUSE_LENGTH_MAX]
