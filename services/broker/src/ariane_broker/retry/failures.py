"""Failures of messages, as clients report them, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.return_table import Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A group's failure on messages of a queue."""

    consumer_group: str
    """The group."""
    topic: str
    """The topic that they were read from."""
    queue_id: int
    """The queue that they were read from."""
    wait_ms: int | None = None
    """Wait before the next try; None for the group's policy."""
    reason: DeadLetterReason | None = None
    """Why they become dead letters at once; None if they need not."""
    cause: str = ""
    """Why they failed, for people."""
    attempts_max: int = 0
    """The client's own limit of retries; 0 for the group's."""
    local_attempts: int = 0
    """Earlier tries without a return."""
    return_id: str = ""
    """The client's id of this return; perhaps empty."""
    died: bool = False
    """Whether the consumer died of them, so that no client returned them."""


class FailedPlace(NamedTuple):
    """The place of a failed message."""

    queue_offset: int
    """Its offset in its queue."""
    commit_log_offset: int
    """Commit-log offset of its record."""


class ReturnOutcome(NamedTuple):
    """The outcome for one failed message."""

    returned: Returned
    """The return that now holds."""
    duplicate: bool
    """Whether an earlier call had made that return."""


@dataclass(frozen=True, slots=True)
class ReturnLimits:
    """The limits of a return."""

    delay_ms_max: int
    """The longest wait for another try."""
    deaths_max: int = 0
    """How many consumers may die of a message; 0: no limit of its own."""
