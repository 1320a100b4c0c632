"""The deletion of topics from a store, step by step.

1. The appending thread hides the queues: they are neither read nor added to any more.
2. Any thread writes down up to which offset the records of the topics are deleted. From then on
they are deleted, whatever happens; before it, nothing is deleted, and the queues can be shown
again.
3. The files of the queues are removed with the next flush of derived data, or at the next opening
if the process ends before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ariane_storage.queues.consume_queue import ConsumeQueue


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Topics that are being deleted."""

    ends: Mapping[str, int]
    """Commit-log offset below which the records of each topic are deleted; also of topics without
    queues, for which messages may wait in system topics."""
    queues: tuple[ConsumeQueue, ...]
    """Their queues, which are hidden."""

    def __str__(self) -> str:
        topics = sorted(self.ends)
        if len(topics) == 1:
            return f"{topics[0]} is deleted"
        return f"{topics[0]} and {len(topics) - 1} more are deleted"
