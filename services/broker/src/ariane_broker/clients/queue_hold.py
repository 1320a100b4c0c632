"""What a client hands out nothing of, as it says in its heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HOLDS_MAX: Final = 1000
"""The most holds that are kept of a client."""

CAUSE_LENGTH_MAX: Final = 255


class HoldReason(StrEnum):
    """Why a client hands out nothing of a queue."""

    FAILED_IN_ORDER = "failed_in_order"
    REQUESTED = "requested"
    PAUSED = "paused"
    BREAKER_OPEN = "breaker_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHold:
    """A queue, or all queues, of which a client hands out nothing.

    Attributes:
        consumer_group: The group.
        topic: The topic; empty: all queues of the client.
        broker_name: The queue's broker.
        queue_id: The queue.
        reason: Why.
        queue_offset: The message that is tried again.
        attempts: How often it has failed in its place.
        age_ms: How long it has lasted, when the client said so.
        cause: Why, for people.
        remaining_ms: How long it lasted yet then; None: until its cause is gone.
    """

    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int
    reason: HoldReason
    queue_offset: int
    attempts: int
    age_ms: int
    cause: str
    remaining_ms: int | None
