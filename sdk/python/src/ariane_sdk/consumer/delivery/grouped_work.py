"""The work on one message queue by message group, under the broker's lock: many groups at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from ariane_sdk.consumer.delivery.message_shards import MessageShards
from ariane_sdk.consumer.delivery.ordered_work import OrderedQueueWork
from ariane_sdk.consumer.delivery.window import Delivery
from ariane_sdk.message import ReceivedMessage

FEED_MESSAGES: Final = 256
"""Messages that go from the window to the shards at a time."""


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
