"""Messages of one queue in shards, one for each message group: what may be delivered at a time.

::

    queue    a1 b1 a2 c1 a3 b2 --
    shards   a: a1 a2 a3     in work: a1, b1         ready: c1, and the message without a group
             b: b1 b2        a2 waits for a1
             c: c1

A shard has at most one batch in work. The shard whose first message is the oldest goes first:
so the smallest unfinished message of the queue is always in work or next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ariane_sdk.consumer.delivery.window import Delivery
from ariane_sdk.message import ReceivedMessage


class _Taken:
    """Messages that were taken from the window together, and which of them are finished."""

    __slots__ = ("_done", "_place_of", "delivery", "left_count")

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.left_count = len(delivery.messages)
        self._done = bytearray(self.left_count)
        self._place_of = {id(message): n for n, message in enumerate(delivery.messages)}

    def finish(self, message: ReceivedMessage) -> bool:
        """Mark a message as finished; returns whether all are."""
        self._done[self._place_of[id(message)]] = 1
        self.left_count -= 1
        if not self.left_count:
            return True
        self.delivery.done_count = max(self.delivery.done_count, self._done.index(0))
        return False


@dataclass(slots=True)
class Shard:
    """The messages of one message group that wait or are in work, in the order of the queue."""

    waiting: deque[tuple[ReceivedMessage, _Taken]] = field(default_factory=deque)
    in_work: list[tuple[ReceivedMessage, _Taken]] = field(default_factory=list)

    @property
    def messages(self) -> Sequence[ReceivedMessage]:
        """Those in work."""
        return [message for message, _ in self.in_work]


class MessageShards:
    """The shards of one queue."""

    def __init__(self) -> None:
        """Start without messages."""
        self.waiting_count = 0
        """Messages that are in a shard and not in work."""
        self.in_work_count = 0
        """Messages that are in work."""
        self._shards: dict[str, Shard] = {}
        self._ready: list[tuple[int, int, str, Shard]] = []
        self._serial = 0

    @property
    def ready_count(self) -> int:
        """Shards from which a batch may be taken now."""
        return len(self._ready)

    def put(self, delivery: Delivery) -> None:
        """Put messages into the shards of their groups; each without a group has its own."""
        taken = _Taken(delivery)
        for message in delivery.messages:
            group = message.message_group
            shard = self._shards.get(group) if group else None
            if shard is None:
                shard = Shard()
                if group:
                    self._shards[group] = shard
            idle = not (shard.waiting or shard.in_work)
            shard.waiting.append((message, taken))
            if idle:
                self._make_ready(group, shard)
        self.waiting_count += len(delivery.messages)

    def take(
        self, count_max: int, is_single: Callable[[ReceivedMessage], bool] | None
    ) -> tuple[str, Shard] | None:
        """Take the next messages of the shard that goes first into work; None if none is ready.

        Args:
            count_max: Messages at most, at least one.
            is_single: Whether a message must be delivered alone.
        """
        if not self._ready:
            return None
        _, _, group, shard = heappop(self._ready)
        while shard.waiting and len(shard.in_work) < count_max:
            alone = is_single is not None and is_single(shard.waiting[0][0])
            if alone and shard.in_work:
                break
            shard.in_work.append(shard.waiting.popleft())
            if alone:
                break
        self.waiting_count -= len(shard.in_work)
        self.in_work_count += len(shard.in_work)
        return group, shard

    def finish_leading(self, group: str, count: int) -> list[Delivery]:
        """End the work on the first messages of a batch, whose rest stays in work.

        Args:
            group: The message group of the batch; a batch without a group has no rest.
            count: Messages, fewer than the batch has left.

        Returns:
            What was taken together and is finished now.
        """
        return self._finish(self._shards[group], count)

    def finish(self, group: str, shard: Shard) -> list[Delivery]:
        """End the work on a shard's batch; returns what was taken together and is finished now."""
        finished = self._finish(shard, len(shard.in_work))
        if shard.waiting:
            self._make_ready(group, shard)
        elif group:
            del self._shards[group]
        return finished

    def _finish(self, shard: Shard, count: int) -> list[Delivery]:
        done = shard.in_work[:count]
        del shard.in_work[:count]
        self.in_work_count -= count
        return [taken.delivery for message, taken in done if taken.finish(message)]

    def _make_ready(self, group: str, shard: Shard) -> None:
        self._serial += 1
        offset = shard.waiting[0][0].queue_offset
        heappush(self._ready, (offset, self._serial, group, shard))
