"""Why nothing of a queue is handed out although messages may wait, for operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ariane.broker.v1.client_question_pb2 import (
    HOLD_REASON_BREAKER_OPEN,
    HOLD_REASON_FAILED_IN_ORDER,
    HOLD_REASON_PAUSED,
    HOLD_REASON_REQUESTED,
    HoldReason,
    QueueHold,
)
from ariane_sdk.message_queue import MessageQueue

FAILED_IN_ORDER: Final = HOLD_REASON_FAILED_IN_ORDER
REQUESTED: Final = HOLD_REASON_REQUESTED
PAUSED: Final = HOLD_REASON_PAUSED
BREAKER_OPEN: Final = HOLD_REASON_BREAKER_OPEN

CAUSE_LENGTH_MAX: Final = 255

HoldKey: TypeAlias = tuple[str, int, int, int, int]
"""What distinguishes holds of one broker: topic, queue id, reason, queue offset, and how often the
message was tried, of which only doubling counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why nothing of a queue is handed out."""

    reason: HoldReason.ValueType
    """Why."""
    since_s: float
    """When it began, by the loop's time."""
    queue_offset: int = 0
    """The message that is tried again."""
    attempts: int = 0
    """How often it has failed in its place."""
    cause: str = ""
    """Why, for people."""
    until_s: float | None = None
    """When it ends by itself, by the loop's time; None: it does not."""
    everywhere: bool = False
    """Whether it holds all queues of the consumer."""

    def is_over(self, now_s: float) -> bool:
        """Whether it has ended by itself."""
        return self.until_s is not None and now_s >= self.until_s

    def to_wire(self, group: str, queue: MessageQueue, now_s: float) -> QueueHold:
        """The hold of a queue, for a broker."""
        wire = QueueHold(
            consumer_group=group,
            topic="" if self.everywhere else queue.topic,
            broker_name="" if self.everywhere else queue.broker_name,
            queue_id=0 if self.everywhere else queue.queue_id,
            reason=self.reason,
            queue_offset=self.queue_offset,
            attempts=self.attempts,
            cause=self.cause[:CAUSE_LENGTH_MAX],
        )
        wire.age.FromMilliseconds(max(0, round((now_s - self.since_s) * 1000)))
        if self.until_s is not None:
            wire.remaining.FromMilliseconds(max(0, round((self.until_s - now_s) * 1000)))
        return wire


def keys_of(holds: Iterable[QueueHold]) -> frozenset[HoldKey]:
    """What is reported at once when it changes; the rest comes with the next heartbeat."""
    return frozenset(
        (
            hold.topic,
            hold.queue_id,
            int(hold.reason),
            hold.queue_offset,
            hold.attempts.bit_length(),
        )
        for hold in holds
    )
