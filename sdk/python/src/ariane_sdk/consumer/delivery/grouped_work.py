"""The work on one message queue by message group, under the broker's lock: many groups at once.

Its messages lie in shards, one for each message group, which say what may be delivered at a time.

::

    queue    a1 b1 a2 c1 a3 b2 --
    shards   a: a1 a2 a3     in work: a1, b1         ready: c1, and the message without a group
             b: b1 b2        a2 waits for a1
             c: c1

A shard has at most one batch in work. The shard whose first message is the oldest goes first:
so the smallest unfinished message of the queue is always in work or next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from ariane_sdk.consumer.delivery.ordered_work import OrderedQueueWork
from ariane_sdk.consumer.delivery.window import Delivery
from ariane_sdk.message import ReceivedMessage

FEED_MESSAGES: Final = 256
"""Messages that go from the window to the shards at a time."""


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


class GroupedQueueWork(OrderedQueueWork):
    """Delivers several batches of one queue at once, each of one message group.

    Within a message group, everything is as in ``OrderedQueueWork``: a failed message is repeated
    before anything behind it, and holds up its group. Others go on, until the distance from the
    first unfinished message to the last reaches ``queue_span_max``. Messages without a group have
    no order. The smallest unfinished offset is stored.
    """

    _shards: MessageShards

    @property
    def in_flight_count(self) -> int:
        """Messages that the listener has and has not finished."""
        return self._shards.in_work_count

    @property
    def waiting_count(self) -> int:
        """Messages that wait for the listener."""
        return self.window.waiting_count + self._shards.waiting_count

    def start(self) -> None:
        """Start delivering."""
        self._shards = MessageShards()
        super().start()

    async def _run(self) -> None:
        """Deliver batch after batch, beside other loops of the queue, until it is given up."""
        now_s = asyncio.get_running_loop().time
        while await self._wait_free():
            self._feed()
            taken = self._shards.take(self._batch_size, self.hand_out.suspects)
            if taken is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            group, shard = taken
            self.delivered_s = now_s()
            batch = shard.messages
            if not await self._deliver_until_done(Delivery(batch, batch[0].queue_offset, 0)):
                return
            had_room = self.wants_records
            self._make_room(self._shards.finish(group, shard), had_room=had_room)
            if self._after_batch is not None:
                await self._after_batch(self.queue)
            if self._shards.ready_count:
                self._arrived.set()  # For the loops beside this one.
            await asyncio.sleep(0)

    def _without(
        self, delivery: Delivery, left: Sequence[ReceivedMessage], count: int
    ) -> Sequence[ReceivedMessage]:
        """As in order; what is done of a batch is done for the queue's offset, too."""
        left = super()._without(delivery, left, count)
        if left:
            had_room, group = self.wants_records, left[0].message_group
            self._make_room(self._shards.finish_leading(group, count), had_room=had_room)
        return left

    def _make_room(self, finished: Iterable[Delivery], *, had_room: bool) -> None:
        """Finish in the window what was taken together; ``had_room`` is how it was before."""
        for delivery in finished:
            self.window.finish(delivery)
        self.hand_out.wake()
        if not had_room and self.wants_records:
            self._on_room()

    def _feed(self) -> None:
        """Put waiting messages into the shards, as many as all loops may need."""
        hand_out, shards = self.hand_out, self._shards
        while shards.ready_count < self._settings.queue_concurrency:
            # With care, all messages that were taken are reported to brokers: these are then few.
            count = FEED_MESSAGES if hand_out.is_past_suspects else self._batch_size
            if not hand_out.is_past_suspects and shards.waiting_count >= count:
                return
            delivery = self.window.take(count)
            if delivery is None:
                return
            shards.put(delivery)
