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
    """A queue, or all queues, of which a client hands out nothing."""

    consumer_group: str
    """The group."""
    topic: str
    """The topic; empty: all queues of the client."""
    broker_name: str
    """The queue's broker."""
    queue_id: int
    """The queue."""
    reason: HoldReason
    """Why."""
    queue_offset: int
    """The message that is tried again."""
    attempts: int
    """How often it has failed in its place."""
    age_ms: int
    """How long it has lasted, when the client reported it."""
    cause: str
    """Why, for people."""
    remaining_ms: int | None
    """How long it lasted yet then; None: until its cause is gone."""
