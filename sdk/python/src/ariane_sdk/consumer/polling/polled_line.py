"""The line in which queues of a pull consumer wait to be polled, and the queues in hand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from ariane_sdk.consumer.polling.polled_columns import PolledColumns
from ariane_sdk.consumer.polling.polled_queue import PolledQueue
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa


class PolledLine:
    """Hands out messages, queue by queue in turn; tracks the queues whose messages are in hand."""

    def __init__(self) -> None:
        """Start with an empty line, and no messages in hand."""
        self.paused: set[MessageQueue] = set()
        """The queues that the application has paused, also while they are taken over anew."""
        self._line: deque[PolledQueue] = deque()
        self._in_hand: set[PolledQueue] = set()
        self._arrived = asyncio.Event()

    def resumed(
        self, queues: Iterable[MessageQueue], owned: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Resume those of some queues that are paused and taken over anew; return the others.

        ``owned``: the queues that the consumer has now.
        """
        wanted = list(queues)
        moving = self.paused.intersection(wanted).difference(owned)
        self.paused -= moving
        return [queue for queue in wanted if queue not in moving]

    def join(self, polled: PolledQueue) -> None:
        """Put a queue at the end of the line, unless it is in line."""
        if not polled.in_line:
            polled.in_line = True
            self._line.append(polled)
        self._arrived.set()

    def wake(self) -> None:
        """Wake all that wait."""
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until a queue joins, or ``wake``."""
        self._arrived.clear()
        await self._arrived.wait()

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """Take waiting messages, queue by queue; queues not reached are first the next time."""
        messages: list[ReceivedMessage] = []
        while len(messages) < count_max and (polled := self._next()) is not None:
            taken = polled.take(count_max - len(messages))
            if taken:
                messages += taken
                self._hand_out(polled)
        return messages

    def take_batch(self) -> tuple[MessageQueue, pa.RecordBatch] | None:
        """Take a batch of the queue whose turn it is, with the queue; None if none waits."""
        while (polled := self._next()) is not None:
            batch = polled.take_batch() if isinstance(polled, PolledColumns) else None
            if batch is not None:
                self._hand_out(polled)
                return polled.queue, batch
        return None

    def in_hand(self) -> Iterator[tuple[MessageQueue, PolledQueue]]:
        """Queues whose messages the application has, also queues that are being given up."""
        return ((polled.queue, polled) for polled in self._in_hand)

    def put_down(self, polled: PolledQueue) -> None:
        """Note that the application has no messages of a queue any more."""
        self._in_hand.discard(polled)

    def count_as_done(self) -> None:
        """Count all messages of the application as done."""
        for polled in self._in_hand:
            polled.count_as_done()
        self._in_hand.clear()

    def forget_in_hand(self) -> None:
        """Count the application's messages as not done: they are delivered again."""
        for polled in self._in_hand:
            polled.forget_in_hand()
        self._in_hand.clear()

    def _next(self) -> PolledQueue | None:
        if not self._line:
            return None
        polled = self._line.popleft()
        polled.in_line = False
        return polled

    def _hand_out(self, polled: PolledQueue) -> None:
        self._in_hand.add(polled)
        # It has more messages: put it behind the others.
        polled.wake()
