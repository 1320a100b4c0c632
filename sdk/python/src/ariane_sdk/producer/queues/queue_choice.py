"""Which message queue a message goes to.

* Without a message group: **sticky round robin**. One queue gets as many messages as make a
worthwhile row, then the next queue gets as many. Messages that are sent together are spread over
all queues, and rows grow large without waiting. Brokers take turns: a busy broker is skipped
while another is idle. ``latency`` has the variant that also skips slow brokers.
* With a message group: the queue follows from the group alone, so that its messages stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Final

from ariane_ordering import group_position
from ariane_sdk.message_queue import MessageQueue

SPREAD_CALLS_MAX: Final = 16
"""How many large sends in a row are each divided among all queues. Later ones go whole to one queue
after the other: the queues are even by then, and whole rows cost half as much."""

PAUSE_S: Final = 0.05
"""Large sends with less time between them come in a row."""

_SMALL_ROUND: Final = 8
"""With fewer queues, the order of the round does not matter: each has its turn soon."""

_GOLDEN_SHARE: Final = 0.618

GROUPS_REMEMBERED_MAX: Final = 1 << 16
"""Groups whose queue is remembered; a hash costs ten times a look into a table."""


class StickyRoundRobin:
    """A round through the queues that stays at one queue until it is moved on."""

    def __init__(self, queues: Sequence[MessageQueue], first: int) -> None:
        # Neighbours in the round lie on different brokers, so that brokers share the work evenly.
        in_line = sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))
        step = _step_of(len(in_line))
        self.queues = [in_line[turn * step % len(in_line)] for turn in range(len(in_line))]
        """All queues, in the order of the round."""
        self._several_brokers = len({queue.broker_name for queue in queues}) > 1
        self._position = first % len(queues)
        self.current = self.queues[self._position]
        """The queue that gets messages now."""

    def move_on(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        """Go to the next queue on a welcome broker; if no broker is welcome, to the next queue."""
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


class CallFlow:
    """Tells a few large sends from a stream of them. A stream is spread already, call by call."""

    def __init__(self) -> None:
        self.running = 0
        """The sends that have begun and not ended."""
        self._count = 0
        self._idle_since_s = float("-inf")

    def begin(self, now_s: float) -> bool:
        """Note that a send begins at this monotonic time; returns whether it should be spread."""
        if not self.running and now_s - self._idle_since_s > PAUSE_S:
            self._count = 0
        self.running += 1
        self._count += 1
        return self._count <= SPREAD_CALLS_MAX

    def end(self, now_s: float) -> None:
        """Note that a send has ended at this monotonic time."""
        self.running -= 1
        self._idle_since_s = now_s


class GroupQueues:
    """Assigns each message group a queue: Java's hash of the name, modulo the sorted queues."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self.queues: Sequence[MessageQueue] = sorted(queues)
        """The queues, sorted."""
        self._known: dict[str, MessageQueue] = {}

    def queue_of(self, message_group: str) -> MessageQueue:
        """The queue of a message group."""
        queue = self._known.get(message_group)
        if queue is None:
            queue = self.queues[group_position(message_group, len(self.queues))]
            if len(self._known) >= GROUPS_REMEMBERED_MAX:
                self._known.clear()
            self._known[message_group] = queue
        return queue


def _step_of(count: int) -> int:
    """How far apart in the sorted queues the neighbours of a round lie.

    A consumer mostly owns queues that lie side by side. A send of few shares should reach several
    consumers.
    """
    if count < _SMALL_ROUND:
        return 1
    wanted = round(count * _GOLDEN_SHARE)
    return next(step for step in range(wanted, 2 * count) if gcd(step, count) == 1)
