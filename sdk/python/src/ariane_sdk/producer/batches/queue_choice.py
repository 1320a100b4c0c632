"""Which message queue a message goes to.

* For no particular queue: **sticky round robin**. All messages go to one queue for as long as its
  batch is open, then to the next, so that batches grow large without anybody waiting. Brokers take
  turns: a busy one is passed over while another is idle.
  ``_latency`` has the variant that also passes over slow ones.
* With a message group: the queue follows from the group alone, so that its messages stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ariane_record import java_string_hash
from ariane_sdk.message import MessageQueue

GROUPS_REMEMBERED_MAX: Final = 1 << 16
"""Groups whose queue is remembered; a hash costs ten times a look into a table."""


class StickyRoundRobin:
    """One queue until it is told to move on.

    Attributes:
        current: The queue.
        queues: All of them, in the order of the round.
    """

    __slots__ = ("_position", "_several_brokers", "current", "queues")

    def __init__(self, queues: Sequence[MessageQueue], first: int) -> None:
        """Stick to a queue.

        Args:
            queues: At least one.
            first: Where to begin; any number.
        """
        # Neighbours lie on different brokers, so that those share the work evenly.
        self.queues = sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))
        self._several_brokers = len({queue.broker_name for queue in queues}) > 1
        self._position = first % len(queues)
        self.current = self.queues[self._position]

    def move_on(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        """Go to the next queue on a broker that is welcome, or just to the next if none is.

        Args:
            is_welcome: Says so of a broker's name.
        """
        count = len(self.queues)
        following = self._position + 1
        if self._several_brokers:
            for position in range(following, following + count):
                if is_welcome(self.queues[position % count].broker_name):
                    following = position
                    break
        self._position = following % count
        self.current = self.queues[self._position]
        return self.current


class GroupQueues:
    """The queue of each message group: Java's hash of its name, modulo the sorted queues.

    Attributes:
        queues: The queues, sorted.
    """

    __slots__ = ("_known", "queues")

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        """Divide groups among queues.

        Args:
            queues: At least one.
        """
        self.queues: Sequence[MessageQueue] = sorted(queues)
        self._known: dict[str, MessageQueue] = {}

    def queue_of(self, message_group: str) -> MessageQueue:
        """The queue of a group."""
        queue = self._known.get(message_group)
        if queue is None:
            queue = self.queues[java_string_hash(message_group) % len(self.queues)]
            if len(self._known) >= GROUPS_REMEMBERED_MAX:
                self._known.clear()
            self._known[message_group] = queue
        return queue
