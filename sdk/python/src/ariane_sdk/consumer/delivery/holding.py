"""What a push consumer hands out nothing of: paused by the application, or held for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ariane.broker.v1.client_question_pb2 import HoldReason
from ariane_sdk.client.hold import PAUSED, Hold
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger


class Holding:
    """The holds of one consumer, of single queues and of all."""

    def __init__(self, group: str) -> None:
        """Hold nothing."""
        self.any = False
        """Whether there are any, perhaps over by now: a cheap test."""
        self._group = group
        self._holds: dict[tuple[MessageQueue | None, int], Hold] = {}
        self._changed = asyncio.Event()

    def hold(
        self,
        queue: MessageQueue | None,
        reason: HoldReason.ValueType,
        *,
        seconds: float | None = None,
        cause: str = "",
    ) -> None:
        """Hand out nothing for a while.

        Args:
            queue: The queue; None: all queues.
            reason: Why; there is one hold of a queue for each reason, and a later one replaces it.
            seconds: How long; None: until ``free``.
            cause: Why, for people.
        """
        now_s = asyncio.get_running_loop().time()
        until_s = None if seconds is None else now_s + seconds
        known = self._holds.get((queue, reason))
        since_s = known.since_s if known is not None and not known.is_over(now_s) else now_s
        self._holds[queue, reason] = Hold(
            reason=reason,
            since_s=since_s,
            until_s=until_s,
            cause=cause,
            everywhere=queue is None,
        )
        logger.warning(
            "%s of group %s hands out nothing %s%s",
            "the consumer" if queue is None else queue,
            self._group,
            "until it is resumed" if seconds is None else f"for {seconds:g} s",
            f": {cause}" if cause else "",
        )
        self._change()

    def free(self, queue: MessageQueue | None, reason: HoldReason.ValueType) -> None:
        """End a hold of a queue, or the one of all queues."""
        if self._holds.pop((queue, reason), None) is not None:
            logger.warning(
                "%s of group %s goes on", "the consumer" if queue is None else queue, self._group
            )
        self._change()

    def free_all(self, reason: HoldReason.ValueType) -> None:
        """End all holds for a reason."""
        for queue, why in list(self._holds):
            if why == reason:
                self.free(queue, reason)

    def of(self, queue: MessageQueue) -> Hold | None:
        """The hold of a queue that lasts longest; None if nothing holds it now."""
        return max(self._of(queue), key=_end_s, default=None) if self.any else None

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether the application has paused a queue."""
        return self.any and ((None, PAUSED) in self._holds or (queue, PAUSED) in self._holds)

    async def wait(self, queue: MessageQueue, released: asyncio.Event) -> None:
        """Wait until nothing holds a queue, or it is given up."""
        while not released.is_set() and (hold := self.of(queue)) is not None:
            left_s = None
            if hold.until_s is not None:
                left_s = max(0.0, hold.until_s - asyncio.get_running_loop().time())
            waits = [asyncio.ensure_future(each.wait()) for each in (released, self._changed)]
            try:
                await asyncio.wait(waits, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()

    def _of(self, queue: MessageQueue) -> Iterator[Hold]:
        now_s = asyncio.get_running_loop().time()
        for key in [key for key, hold in self._holds.items() if hold.is_over(now_s)]:
            del self._holds[key]
        self.any = bool(self._holds)
        return (hold for (held, _), hold in self._holds.items() if held in {None, queue})

    def _change(self) -> None:
        self.any = bool(self._holds)
        self._changed.set()
        self._changed = asyncio.Event()


def _end_s(hold: Hold) -> float:
    return float("inf") if hold.until_s is None else hold.until_s
