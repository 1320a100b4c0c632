"""Failures of messages, as clients report them, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.return_table import Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A group's failure on messages of a queue.

    Attributes:
        consumer_group: The group.
        topic: The topic that they were read from.
        queue_id: The queue that they were read from.
        wait_ms: Wait before the next try; None for the group's policy.
        reason: Why they become dead letters at once; None if they need not.
        cause: Why they failed, for people.
        attempts_max: The client's own limit of retries; 0 for the group's.
        local_attempts: Earlier tries without a return.
        return_id: The client's id of this return; perhaps empty.
        died: Whether the consumer died of them, so that no client returned them.
    """

    consumer_group: str
    topic: str
    queue_id: int
    wait_ms: int | None = None
    reason: DeadLetterReason | None = None
    cause: str = ""
    attempts_max: int = 0
    local_attempts: int = 0
    return_id: str = ""
    died: bool = False


class FailedPlace(NamedTuple):
    """The place of a failed message.

    Attributes:
        queue_offset: Its offset in its queue.
        commit_log_offset: Commit-log offset of its record.
    """

    queue_offset: int
    commit_log_offset: int


class ReturnOutcome(NamedTuple):
    """The outcome for one failed message.

    Attributes:
        returned: The return that now holds.
        duplicate: Whether an earlier call had made that return.
    """

    returned: Returned
    duplicate: bool


@dataclass(frozen=True, slots=True)
class ReturnLimits:
    """The limits of a return.

    Attributes:
        delay_ms_max: The longest wait for another try.
        deaths_max: How many consumers may die of a message; 0: no limit of its own.
    """

    delay_ms_max: int
    deaths_max: int = 0
