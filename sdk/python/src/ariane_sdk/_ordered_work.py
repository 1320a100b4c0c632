"""One message queue in work, in order, under the broker's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ariane_sdk._listener import Deliver
from ariane_sdk._log import logger
from ariane_sdk._message import MessageQueue
from ariane_sdk._queue_locks import QueueLocks
from ariane_sdk._queue_work import QueueWork
from ariane_sdk._settings import ConsumerSettings
from ariane_sdk._window import Delivery


class OrderedQueueWork(QueueWork):
    """Delivers the messages of one queue strictly one batch after the other.

    A batch whose listener fails suspends the queue for a while and comes again, for as long as it
    takes. Nothing is handed out without the lock.
    """

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        *,
        deliver: Deliver,
        batch_size: int,
        settings: ConsumerSettings,
        on_room: Callable[[], None],
        locks: QueueLocks,
    ) -> None:
        """Own a locked queue from now on.

        Args:
            queue: The queue.
            begin_offset: The first queue offset to be consumed.
            deliver: Hands messages to the listener.
            batch_size: Messages in one delivery, at most.
            settings: How the consumer behaves.
            on_room: Called when the queue may be pulled again.
            locks: Knows whether the queue may be consumed.
        """
        super().__init__(
            queue,
            begin_offset,
            deliver=deliver,
            batch_size=batch_size,
            settings=settings,
            on_room=on_room,
        )
        self._locks = locks

    async def _deliver_until_done(self, delivery: Delivery) -> bool:
        """Whether the listener is done with it; otherwise the queue was given up, or lost."""
        suspend_s = self._settings.suspend_s
        while self._locks.holds(self.queue):
            try:
                await self._deliver(delivery.messages)
            except Exception:  # noqa: BLE001 - whatever a listener raises means "not done".
                logger.warning(
                    "the listener failed with %d messages of %s from %d on; suspended for %.1f s",
                    len(delivery.messages),
                    self.queue,
                    delivery.begin_offset,
                    suspend_s,
                    exc_info=True,
                )
            else:
                return True
            try:
                async with asyncio.timeout(suspend_s):
                    await self._released.wait()
            except TimeoutError:
                continue
            return False
        # Who renews locks finds out too, and has the queue given up.
        logger.warning("%s is not consumed any longer: its lock is not good", self.queue)
        return False
