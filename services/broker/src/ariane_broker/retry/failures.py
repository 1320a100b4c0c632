"""What is said of messages that failed, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.return_table import Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a group failed on messages of a queue.

    Attributes:
        consumer_group: The group.
        topic: The topic that they were read from.
        queue_id: The queue that they were read from.
        wait_ms: Before the next try; None leaves it to the group's policy.
        reason: Why they shall become dead letters at once; None when they need not.
        cause: Why they failed, for people.
        attempts_max: The client's own limit of tries after the first; 0 is the group's.
        local_attempts: Earlier tries that nobody returned.
        return_id: The client's name for this return; perhaps empty.
        died: Whether their consumer died of them, and nobody returned them.
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
    """Where a message is that failed.

    Attributes:
        queue_offset: In its queue.
        commit_log_offset: Of its record.
    """

    queue_offset: int
    commit_log_offset: int


class TakenBack(NamedTuple):
    """The outcome for one failed message.

    Attributes:
        returned: Where it is now.
        duplicate: Whether that was so before.
    """

    returned: Returned
    duplicate: bool


@dataclass(frozen=True, slots=True)
class ReturnLimits:
    """The limits of a return.

    Attributes:
        delay_ms_max: The longest wait for another try.
        deaths_max: How many of its consumers may die of a message; 0: no own limit.
    """

    delay_ms_max: int
    deaths_max: int = 0
