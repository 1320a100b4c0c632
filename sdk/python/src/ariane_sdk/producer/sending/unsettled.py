"""The rows of a producer without an outcome, and the memory that they use.

Above a limit of bytes senders wait; they go on in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count, islice
from typing import Final

from ariane_sdk.errors import CallError
from ariane_sdk.message import SendResult
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

WOKEN_AT_ONCE: Final = 64
"""Number of waiting senders that check for room at the same time."""


class Unsettled:
    """Rows in the order in which they were opened.

    Attributes:
        size_bytes: Size of their records, and of messages that wait for a route.
        held: Refused rows that wait to be taken out.
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
        """Start empty; without ``sequences`` rows have no sequence numbers.

        A row may take ``timeout_s``. Senders must wait from ``size_bytes_max`` on.
        """
        self._sequences = sequences
        self._clock = clock
        self._timeout_s = timeout_s
        self._size_bytes_max = size_bytes_max
        self._all: dict[Row, None] = {}
        self._landings: dict[str, Callable[[], None]] = {}
        self._places = count()
        # By place in the line: the first sender has the smallest.
        self._turns: dict[int, asyncio.Future[None]] = {}
        self.held: set[Row] = set()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, row: Row) -> bool:
        return row in self._all

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

    def add(self, row: Row) -> None:
        """Add a row that was just opened; its time begins."""
        row.deadline_s = self._clock.monotonic_s() + self._timeout_s
        self._all[row] = None

    def add_cut(self, row: Row) -> None:
        """Add a part of another row, with what is left of the time of both."""
        self._all[row] = None
        self.size_bytes += row.sequence_bytes

    @property
    def rows(self) -> list[Row]:
        """The rows."""
        return list(self._all)

    def of_topic(self, topic: str) -> list[Row]:
        """The rows of a topic."""
        return [row for row in self.rows if row.topic == topic]

    def withdraw(self, future: asyncio.Future[SendResult]) -> bool:
        """Take a message back that no call carries.

        Returns:
            Whether the message will surely not be stored.
        """
        for row in self._all:
            size_bytes = row.withdraw(future)
            if size_bytes:
                self.release(size_bytes)
                if not row.messages:
                    self.fail(row, CallError("all its messages were withdrawn"))
                return True
        return False

    async def wait(self) -> None:
        """Wait for the outcome of everything that is here now."""
        for row in list(self._all):
            await row.wait_settled()

    def fail(self, row: Row, error: CallError) -> None:
        """Make a row fail."""
        if self._sequences is not None and row.sequence is not None:
            if row.maybe_stored or error.outcome_unknown:
                self._sequences.begin_anew(row.queue, row.sequence)
            else:
                self._sequences.give_back(row.queue, row.sequence)
        row.fail(error)
        self.forget(row)

    def lose(self, broker_name: str, rows: Iterable[Row], error: Exception) -> None:
        """Make the rows fail that are still here: their answer could not be processed."""
        logger.error("an answer of broker %s was not understood", broker_name, exc_info=error)
        for row in rows:
            if row in self._all:
                self.fail(row, CallError(f"{broker_name}: {error}", outcome_unknown=True))

    def forget(self, row: Row) -> None:
        """Remove a row that has its outcome, or whose messages moved to others."""
        del self._all[row]
        if self.held:
            self.held.discard(row)
        self.release(row.size_bytes)
        if self._landings:
            self.tell_landed((row.topic,))

    def forget_all(self, rows: Iterable[Row]) -> None:
        """Remove rows that have their outcome."""
        for row in rows:
            self.forget(row)

    def await_landing(self, topic: str, landed: Callable[[], None] | None) -> None:
        """Call a function whenever rows of a topic have landed: they are no longer in flight.

        Args:
            topic: The topic.
            landed: Called in the next turn of the loop; ``None`` ends it.
        """
        if landed is None:
            self._landings.pop(topic, None)
        else:
            self._landings[topic] = landed

    def tell_landed(self, topics: Iterable[str]) -> None:
        """Report that rows of these topics are no longer in flight."""
        for topic in topics:
            if topic in self._landings:
                # Not now: rows that are about to be sent would look as if they still waited.
                asyncio.get_running_loop().call_soon(self._landings[topic])

    def close(self) -> None:
        """Give everything up; rows in flight may have been stored."""
        self._landings.clear()
        for row in self.rows:
            refusal = row.last_refusal
            before = "" if refusal is None else f" before another try, after: {refusal}"
            text = f"the producer was closed{before}"
            self.fail(row, CallError(text, outcome_unknown=row.in_flight))


class SendTurns:
    """Lets other senders have their turn while one call takes much, after a number of bytes."""

    __slots__ = ("_end_bytes", "_turn_bytes", "_unsettled")

    def __init__(self, unsettled: Unsettled, turn_bytes: int) -> None:
        self._unsettled = unsettled
        self._turn_bytes = turn_bytes
        # Nothing was taken yet: the first call checks for room.
        self._end_bytes = -1

    async def next(self, taken_bytes: int) -> None:
        """Before another row: when a turn is over, let rows be sent, and wait for room."""
        if taken_bytes < self._end_bytes:
            return
        self._end_bytes = taken_bytes + self._turn_bytes
        if self._unsettled.size_bytes:
            await asyncio.sleep(0)
            await self._unsettled.wait_for_room()
