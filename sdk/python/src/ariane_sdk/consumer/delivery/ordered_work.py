"""One message queue in work, in order, under the broker's lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ariane_sdk.consumer.delivery.failed_messages import (
    FailedMessages,
    failed_messages,
)
from ariane_sdk.consumer.delivery.hand_out import CARELESS, DeliveryCare, GivenUpError
from ariane_sdk.consumer.delivery.message_returns import EXHAUSTED, REJECTED, MessageReturns
from ariane_sdk.consumer.delivery.queue_work import ListenerParts, QueueWork
from ariane_sdk.consumer.delivery.window import Delivery
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue


class OrderedQueueWork(QueueWork):
    """Delivers the messages of one queue strictly one batch after the other.

    Messages that the listener fails on suspend the queue for a while and come again, with all that
    is behind them, until the group allows no more. The last time they come one by one, and those
    that still fail become dead letters. Nothing is handed out without the lock.

    With a limit of 0 there is no other time: a message is given up at once if the listener got it
    alone or says that it failed. Where it fails with a whole batch, each comes once more, alone.
    """

    _takes_runs = False  # A batch that fails comes again with all that is behind it.

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        parts: ListenerParts,
        *,
        on_room: Callable[[], None],
        returns: MessageReturns,
        care: DeliveryCare = CARELESS,
        locks: QueueLocks,
    ) -> None:
        """Own a locked queue from now on; the rest as ``QueueWork``.

        ``returns`` makes dead letters, and knows after how many tries.
        """
        super().__init__(queue, begin_offset, parts, on_room=on_room, returns=returns, care=care)
        self._locks = locks
        self._dead_letters = returns

    async def _deliver_until_done(self, delivery: Delivery) -> bool:
        """Whether the listener is done with it; otherwise the queue was given up, or lost."""
        left, tries, singly = delivery.messages, 0, False
        while self._locks.holds(self.queue):
            # Whose fault it is comes out one by one.
            batch = left[:1] if singly else left
            try:
                failed = await self._deliver_once(batch)
            except GivenUpError:
                return False
            done = len(batch) if failed is None else batch.index(failed.messages[0])
            if done:
                left, tries = left[done:], 0
            if failed is not None:
                attempts_max = await self._dead_letters.attempts_max(self.queue)
                hopeless = failed.rejected or (failed.named and _is_reached(attempts_max, tries))
                if hopeless and await self._give_up_on(left[0], failed, tries):
                    left, tries = left[1:], 0
                elif await self._given_up_within(self._settings.suspend_s):
                    return False
                else:
                    tries += 1
                    singly = singly or _is_reached(attempts_max, tries)
            if not left:
                return True
        # Otherwise the queue would stand still should the lock be renewed now.
        self._locks.stop_relying(self.queue)
        return False

    async def _deliver_once(self, batch: Sequence[ReceivedMessage]) -> FailedMessages | None:
        """What failed; nothing when all is done."""
        try:
            await self.hand_out.give(batch)
        except GivenUpError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a listener raises means "not done".
            failed = failed_messages(batch, error)
            self._failures.tell(self.queue, batch, failed.messages, error)
            return failed
        return None

    async def _give_up_on(
        self, message: ReceivedMessage, failed: FailedMessages, tries: int
    ) -> bool:
        """Whether a message is among the dead letters now."""
        return not await self._dead_letters.send_back(
            FailedMessages([message], failed.cause),
            self.queue,
            return_id=self._return_id,
            local_attempts=tries,
            reason=REJECTED if failed.rejected else EXHAUSTED,
        )


def _is_reached(attempts_max: int | None, tries: int) -> bool:
    """Whether no further try is allowed after so many; a limit that is not known is not reached."""
    return attempts_max is not None and tries >= attempts_max
