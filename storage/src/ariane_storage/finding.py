"""What an inspection of a closed store reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        where: "commit log", "tail", "consume queue", "queue offsets", "index" or "deleted
            topics".
        reason: What is wrong.
        begin: Commit-log offset, or queue offset, at which it begins.
        end: Where it ends.
        topic: Topic of the queue, or nothing.
        queue_id: Number of the queue, or -1.
    """

    where: str
    reason: str
    begin: int
    end: int
    topic: str = ""
    queue_id: int = -1
