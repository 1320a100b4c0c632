"""The batches of a producer without an outcome, and the memory that they use.

Above a limit of bytes senders wait; they go on in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count, islice
from typing import Final

from ariane_sdk.errors import CallError
from ariane_sdk.message import SendResult
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

WOKEN_AT_ONCE: Final = 64
"""Number of waiting senders that check for room at the same time."""


class Unsettled:
    """Batches and bundles in the order in which they were opened.

    Attributes:
        size_bytes: Size of their records, and of messages that wait for a route.
        held: Refused batches that wait to be taken out.
    """

    __slots__ = (
        "_all",
        "_clock",
        "_landings",
        "_places",
        "_sequences",
        "_size_bytes_max",
        "_timeout_s",
        "_turns",
        "held",
        "size_bytes",
    )

    def __init__(
        self,
        sequences: QueueSequences | None,
        *,
        clock: Clock,
        timeout_s: float,
        size_bytes_max: int,
    ) -> None:
        """Start empty; without ``sequences`` batches have no sequence numbers.

        A batch may take ``timeout_s``. Senders must wait from ``size_bytes_max`` on.
        """
        self._sequences = sequences
        self._clock = clock
        self._timeout_s = timeout_s
        self._size_bytes_max = size_bytes_max
        self._all: dict[SendBatch | Bundle, None] = {}
        self._landings: dict[str, Callable[[], None]] = {}
        self._places = count()
        # By place in the line: the first sender has the smallest.
        self._turns: dict[int, asyncio.Future[None]] = {}
        self.held: set[SendBatch] = set()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, batch: SendBatch | Bundle) -> bool:
        return batch in self._all

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.size_bytes >= self._size_bytes_max

    @property
    def crowded(self) -> bool:
        """Whether a new sender must wait: for room, or behind others."""
        return self.size_bytes >= self._size_bytes_max or bool(self._turns)

    def release(self, size_bytes: int) -> None:
        """Make room."""
        self.size_bytes -= size_bytes
        if self._turns:
            self._wake()

    async def wait_for_room(self) -> None:
        """Wait until there is room, behind all senders that wait already."""
        if not self.crowded:
            return
        loop = asyncio.get_running_loop()
        place = next(self._places)
        try:
            while True:
                # A sender that finds no room keeps its place.
                turn = self._turns[place] = loop.create_future()
                await turn
                if not self.full and next(iter(self._turns)) == place:
                    return
        finally:
            del self._turns[place]
            self._wake()

    def _wake(self) -> None:
        if self._turns and not self.full:
            for turn in islice(self._turns.values(), WOKEN_AT_ONCE):
                if not turn.done():
                    turn.set_result(None)

    def add(self, batch: SendBatch | Bundle) -> None:
        """Add a batch that was just opened; its time begins."""
        batch.deadline_s = self._clock.monotonic_s() + self._timeout_s
        self._all[batch] = None

    @property
    def batches(self) -> list[SendBatch]:
        """The batches, without bundles."""
        return [each for each in self._all if isinstance(each, SendBatch)]

    @property
    def bundles(self) -> list[Bundle]:
        """The bundles."""
        return [each for each in self._all if isinstance(each, Bundle)]

    def of_topic(self, topic: str) -> list[SendBatch]:
        """The batches of a topic."""
        return [batch for batch in self.batches if batch.topic == topic]

    def withdraw(self, future: asyncio.Future[SendResult]) -> bool:
        """Take a message back that no call carries.

        Returns:
            Whether the message will surely not be stored.
        """
        for batch in self._all:
            size_bytes = batch.withdraw(future)
            if size_bytes:
                self.release(size_bytes)
                if isinstance(batch, SendBatch) and not batch.count:
                    self.fail(batch, CallError("all its messages were withdrawn"))
                return True
        return False

    async def wait(self) -> None:
        """Wait for the outcome of everything that is here now."""
        for batch in list(self._all):
            await batch.wait_settled()

    def take_apart(self, bundle: Bundle) -> list[SinglesBatch]:
        """Replace a bundle by its batches, and return them."""
        batches = bundle.take_apart()
        if bundle not in self._all:
            return batches
        del self._all[bundle]
        self._all.update(dict.fromkeys(batches))
        # Bytes of rows whose messages were all withdrawn count, too.
        self.release(bundle.size_bytes - sum(batch.size_bytes for batch in batches))
        return batches

    def bundle_stored(self, bundle: Bundle) -> None:
        """Remove a bundle whose messages all have their results."""
        del self._all[bundle]
        self.release(bundle.size_bytes)

    def fail(self, batch: SendBatch, error: CallError) -> None:
        """Make a batch fail."""
        size_bytes = batch.size_bytes
        if self._sequences is not None and batch.sequence is not None:
            if batch.maybe_stored or error.outcome_unknown:
                self._sequences.begin_anew(batch.queue, batch.sequence)
            else:
                self._sequences.give_back(batch.queue, batch.sequence)
        batch.fail(error)
        self.forget(batch, size_bytes)

    def lose(self, broker_name: str, batches: Iterable[SendBatch], error: Exception) -> None:
        """Make the batches fail that are still here: their answer could not be processed."""
        logger.error("an answer of broker %s was not understood", broker_name, exc_info=error)
        for batch in batches:
            if batch in self._all:
                self.fail(batch, CallError(f"{broker_name}: {error}", outcome_unknown=True))

    def forget(self, batch: SendBatch, size_bytes: int) -> None:
        """Remove a batch of this size that has its outcome, or whose messages moved to others."""
        del self._all[batch]
        if self.held:
            self.held.discard(batch)
        self.release(size_bytes)
        if self._landings:
            self.tell_landed((batch.topic,))

    def await_landing(self, topic: str, landed: Callable[[], None] | None) -> None:
        """Call a function whenever batches of a topic have landed: they are no longer in flight.

        Args:
            topic: The topic.
            landed: Called in the next turn of the loop; ``None`` ends it.
        """
        if landed is None:
            self._landings.pop(topic, None)
        else:
            self._landings[topic] = landed

    def tell_landed(self, topics: Iterable[str]) -> None:
        """Report that batches of these topics are no longer in flight."""
        for topic in topics:
            if topic in self._landings:
                # Not now: batches that are about to be sent would look as if they still waited.
                asyncio.get_running_loop().call_soon(self._landings[topic])

    def close(self) -> None:
        """Give everything up; batches in flight may have been stored."""
        self._landings.clear()
        for bundle in self.bundles:
            self.take_apart(bundle)
        for batch in self.batches:
            refusal = batch.last_refusal
            before = "" if refusal is None else f" before another try, after: {refusal}"
            text = f"the producer was closed{before}"
            self.fail(batch, CallError(text, outcome_unknown=batch.in_flight))


class SendTurns:
    """Lets other senders have their turn while one call takes much, after a number of bytes."""

    __slots__ = ("_end_bytes", "_turn_bytes", "_unsettled")

    def __init__(self, unsettled: Unsettled, turn_bytes: int) -> None:
        self._unsettled = unsettled
        self._turn_bytes = turn_bytes
        # Nothing was taken yet: the first call checks for room.
        self._end_bytes = -1

    async def next(self, taken_bytes: int) -> None:
        """Before another batch: when a turn is over, let batches be sent, and wait for room."""
        if taken_bytes < self._end_bytes:
            return
        self._end_bytes = taken_bytes + self._turn_bytes
        if self._unsettled.size_bytes:
            await asyncio.sleep(0)
            await self._unsettled.wait_for_room()
