"""Why nothing of a queue is handed out although messages may wait, for operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ariane.broker.v1.client_question_pb2 import (
    HOLD_REASON_FAILED_IN_ORDER,
    HoldReason,
    QueueHold,
)
from ariane_sdk.message_queue import MessageQueue

FAILED_IN_ORDER: Final = HOLD_REASON_FAILED_IN_ORDER

CAUSE_LENGTH_MAX: Final = 255

HoldKey: TypeAlias = tuple[str, int, int, int]
"""What tells holds of one broker apart: topic, queue id, reason, queue offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why nothing of a queue is handed out.

    Attributes:
        reason: Why.
        since_s: When it began, by the loop's time.
        queue_offset: The message that is tried again.
        attempts: How often it has failed in its place.
        cause: Why it failed.
    """

    reason: HoldReason.ValueType
    since_s: float
    queue_offset: int = 0
    attempts: int = 0
    cause: str = ""

    def to_wire(self, group: str, queue: MessageQueue, now_s: float) -> QueueHold:
        """The hold of a queue, for a broker."""
        wire = QueueHold(
            consumer_group=group,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            reason=self.reason,
            queue_offset=self.queue_offset,
            attempts=self.attempts,
            cause=self.cause[:CAUSE_LENGTH_MAX],
        )
        wire.age.FromMilliseconds(max(0, round((now_s - self.since_s) * 1000)))
        return wire


def keys_of(holds: Iterable[QueueHold]) -> frozenset[HoldKey]:
    """What brokers are told at once when it changes; the rest comes with the next heartbeat."""
    return frozenset(
        (hold.topic, hold.queue_id, int(hold.reason), hold.queue_offset) for hold in holds
    )
