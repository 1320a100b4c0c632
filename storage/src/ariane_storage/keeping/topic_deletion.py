"""The deletion of topics from a store, from the moment that it begins.

1. The appending thread lets go of the queues: nothing is read from them or added to them any more.
2. Any thread writes down up to where the records of the topics are deleted. From then on they are,
   whatever happens; before that nothing has happened, and the queues can be taken back.
3. The files of the queues go with the next flush of what is derived. If the process ends before
   that, they go when the store is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ariane_storage.queues.consume_queue import ConsumeQueue


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Topics that are about to be deleted.

    Attributes:
        ends: Up to which commit-log offset the records of each topic go; those without queues have
            none, and are not among them.
        queues: Their queues, which nobody finds any more.
    """

    ends: Mapping[str, int]
    queues: tuple[ConsumeQueue, ...]

    def __str__(self) -> str:
        topics = sorted(self.ends)
        if len(topics) == 1:
            return f"{topics[0]} is deleted"
        return f"{topics[0]} and {len(topics) - 1} more are deleted"
