"""The work on one message queue in order, under the broker's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from ariane_sdk.client.hold import FAILED_IN_ORDER, Hold
from ariane_sdk.consumer.delivery.failed_messages import (
    FailedMessages,
    failed_messages,
    restore_topics,
)
from ariane_sdk.consumer.delivery.hand_out import NO_CARE, DeliveryCare, GivenUpError
from ariane_sdk.consumer.delivery.message_returns import EXHAUSTED, REJECTED, MessageReturns
from ariane_sdk.consumer.delivery.queue_work import ListenerParts, QueueWork
from ariane_sdk.consumer.delivery.window import Delivery
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.message import ReceivedMessage, count_attempt
from ariane_sdk.message_queue import MessageQueue

_TOGETHER_MAX: Final = 2
"""How often a batch fails as a whole before its messages come one by one."""


class OrderedQueueWork(QueueWork):
    """Delivers the messages of one queue strictly one batch after the other.

    Failed messages suspend the queue for a while and are delivered again, for as long as it takes:
    order is kept. The first time, all messages behind them come along; from the second failure on
    they come one by one, so that nothing behind the one at fault is repeated, and what is done
    before it is done for good. Only where the group limits the attempts in order, messages that
    fail once more become dead letters. Nothing is delivered without the lock.

    With a limit of 0 there is no second attempt: a message is given up at once if the listener got
    it alone or named it as failed. If a whole batch fails, each message is delivered once more,
    alone.
    """

    _takes_runs = False  # A failed batch is delivered again with all messages behind it.

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        parts: ListenerParts,
        *,
        on_room: Callable[[], None],
        returns: MessageReturns,
        care: DeliveryCare = NO_CARE,
        locks: QueueLocks,
    ) -> None:
        """Own a locked queue from now on; the rest as ``QueueWork``.

        ``returns`` makes dead letters, and knows the limit of attempts.
        """
        super().__init__(queue, begin_offset, parts, on_room=on_room, returns=returns, care=care)
        self._locks = locks
        self._dead_letters = returns
        self._failing: dict[int, Hold] = {}

    @property
    def hold(self) -> Hold | None:
        """Why nothing of it is handed out now: also the message that fails."""
        oldest = min(self._failing.values(), key=attrgetter("since_s"), default=None)
        return super().hold or oldest

    async def _deliver_until_done(self, delivery: Delivery) -> bool:
        """Deliver until the listener is done; False if the queue was given up, or lost."""
        if self._comes_back:  # Dead letters that were sent back.
            restore_topics(delivery.messages)
        try:
            return await self._deliver_in_order(delivery)
        finally:
            self._failing.pop(id(delivery), None)

    async def _deliver_in_order(self, delivery: Delivery) -> bool:
        left, tries, singly = delivery.messages, 0, False
        while await self._wait_free() and self._locks.holds(self.queue):
            # One by one, to find the message at fault.
            batch = left[:1] if singly else left
            try:
                failed = await self._deliver_once(batch)
            except GivenUpError:
                return False
            done = len(batch) if failed is None else batch.index(failed.messages[0])
            if done:
                left, tries = self._without(delivery, left, done), 0
            if failed is not None and failed.hold is not None:
                self._hold_by(failed.hold)
            elif failed is not None:
                self._note_failing(delivery, failed, tries + 1)
                attempts_max = await self._dead_letters.attempts_max(self.queue)
                hopeless = failed.rejected or (failed.named and _is_reached(attempts_max, tries))
                if hopeless and await self._give_up_on(left[0], failed, tries):
                    left, tries = self._without(delivery, left, 1), 0
                elif await self._given_up_within(
                    self._settings.suspend_s if failed.delay_s is None else failed.delay_s
                ):
                    return False
                else:
                    tries += 1
                    count_attempt(failed.messages)
                    singly = singly or tries >= _TOGETHER_MAX or _is_reached(attempts_max, tries)
            if not left:
                return True
        if not self.released:
            # Otherwise the queue would stand still if the lock were renewed now.
            self._locks.stop_relying(self.queue)
        return False

    def _without(
        self, delivery: Delivery, left: Sequence[ReceivedMessage], count: int
    ) -> Sequence[ReceivedMessage]:
        """What is left of a delivery after so many messages more, which nobody gets again."""
        left = left[count:]
        self._failing.pop(id(delivery), None)
        if left:
            delivery.done_count = len(delivery.messages) - len(left)
        return left

    def _note_failing(self, delivery: Delivery, failed: FailedMessages, attempts: int) -> None:
        now_s = asyncio.get_running_loop().time()
        known = self._failing.get(id(delivery))
        self._failing[id(delivery)] = Hold(
            reason=FAILED_IN_ORDER,
            since_s=now_s if known is None else known.since_s,
            queue_offset=failed.messages[0].queue_offset,
            attempts=attempts,
            cause=failed.cause,
        )

    async def _deliver_once(self, batch: Sequence[ReceivedMessage]) -> FailedMessages | None:
        """Deliver a batch once; return the failed messages, None if all are done."""
        try:
            await self.hand_out.give(batch)
        except GivenUpError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a listener means "not done".
            failed = failed_messages(batch, error)
            if failed.hold is None:
                self._failures.log(self.queue, batch, failed.messages, error)
            return failed
        return None

    async def _give_up_on(
        self, message: ReceivedMessage, failed: FailedMessages, tries: int
    ) -> bool:
        """Turn a message into a dead letter; return whether that succeeded."""
        return not await self._dead_letters.send_back(
            FailedMessages([message], failed.cause),
            self.queue,
            return_id=self._return_id,
            local_attempts=tries,
            reason=REJECTED if failed.rejected else EXHAUSTED,
        )


def _is_reached(attempts_max: int | None, tries: int) -> bool:
    """Whether no further attempt is allowed after ``tries``; an unknown limit is not reached."""
    return attempts_max is not None and tries >= attempts_max
