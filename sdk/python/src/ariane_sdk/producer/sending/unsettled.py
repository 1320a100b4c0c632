"""The rows of a producer without an outcome: the memory that they use, and their sequence numbers.

Above a limit of bytes senders wait; they go on in the order in which they came.

By sequence numbers brokers recognise a repeated row. The messages of one producer to one queue are
a sequence, numbered from 0. A row takes its numbers when it is sent, and keeps numbers and queue as
long as it may be stored under them. When the producer gives up without knowing that, it cannot know
which number the broker expects next: the sequence begins anew with a larger epoch, and the broker
refuses rows in flight under the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice
from random import Random
from typing import Final, NamedTuple

from ariane_record import ProducerSequence
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.client.session import Session
from ariane_sdk.errors import CallError
from ariane_sdk.message import SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.queues.latency import BrokerLatencies
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.settings import ProducerSettings

WOKEN_AT_ONCE: Final = 64
"""Number of waiting senders that check for room at the same time."""


PRODUCER_ID_MAX: Final = (1 << 63) - 1


class QueueSequences:
    """The sequences of one producer, one for each queue."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        # The numbers that the next row of each queue takes.
        self._next: dict[MessageQueue, ProducerSequence] = {}

    def number(self, row: Row) -> None:
        """Have a row that is about to be sent keep its numbers, or take some."""
        if row.sequence is not None or not row.sequence_bytes:
            return
        place = self._next.get(row.queue) or ProducerSequence(self._producer_id, 0, 0)
        row.sequence, (producer_id, epoch, first) = place, place
        self._next[row.queue] = ProducerSequence(producer_id, epoch, first + row.count)

    def free(self, row: Row, *, anew: bool = False) -> None:
        """Take its numbers from a row.

        Args:
            row: A row that will be sent no more, or under other numbers.
            anew: Whether the sequence begins anew, with a larger epoch: the row may be stored, or
                the broker does not know the sequence. Else the next row takes the numbers.
        """
        place, row.sequence = row.sequence, None
        if place is None:
            return
        following = self._next[row.queue]
        if place.epoch != following.epoch:
            return
        if anew:
            self._next[row.queue] = ProducerSequence(self._producer_id, place.epoch + 1, 0)
        elif place.first_sequence < following.first_sequence:
            self._next[row.queue] = place


class Unsettled:
    """Rows in the order in which they were opened."""

    def __init__(
        self, random: Random, *, clock: Clock, timeout_s: float, size_bytes_max: int
    ) -> None:
        """Start empty; the id of the producer is drawn from ``random``.

        A row may take ``timeout_s``. Senders must wait from ``size_bytes_max`` on.
        """
        self.sequences = QueueSequences(random.randint(1, PRODUCER_ID_MAX))
        """The sequence numbers of the producer."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._size_bytes_max = size_bytes_max
        self._all: dict[Row, None] = {}
        self._on_call_end: dict[str, Callable[[], None]] = {}
        self._places = count()
        # By place in the line: the first sender has the smallest.
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self.held: set[Row] = set()
        """Refused rows that wait to be taken out."""
        self.size_bytes = 0
        """Size of their records, and of messages that wait for a route."""

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
        return self.size_bytes >= self._size_bytes_max or bool(self._waiters)

    def release(self, size_bytes: int) -> None:
        """Make room."""
        self.size_bytes -= size_bytes
        if self._waiters:
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
                waiter = self._waiters[place] = loop.create_future()
                await waiter
                if not self.full and next(iter(self._waiters)) == place:
                    return
        finally:
            del self._waiters[place]
            self._wake()

    def _wake(self) -> None:
        if self._waiters and not self.full:
            for waiter in islice(self._waiters.values(), WOKEN_AT_ONCE):
                if not waiter.done():
                    waiter.set_result(None)

    def add(self, row: Row) -> None:
        """Add a row that was just opened; its time begins."""
        row.deadline_s = self._clock.monotonic_s() + self._timeout_s
        self._all[row] = None

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

    def trouble_of(self, topic: str) -> CallError | None:
        """Why a row of a topic was refused the last time; None if none here was.

        Of any row: to find that of one message takes too long where thousands are late at once.
        """
        refusals = (row.last_refusal for row in self._all if row.topic == topic)
        return next(filter(None, refusals), None)

    async def wait(self) -> None:
        """Wait for the outcome of everything that is here now."""
        for row in list(self._all):
            await row.wait_settled()

    def fail(self, row: Row, error: CallError) -> None:
        """Make a row fail."""
        self.sequences.free(row, anew=row.maybe_stored or error.outcome_unknown)
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
        self.forget_all((row,))

    def forget_all(self, rows: Sequence[Row]) -> None:
        """Remove rows that have their outcome."""
        size_bytes = 0
        for row in rows:
            del self._all[row]
            size_bytes += row.size_bytes
        if self.held:
            self.held.difference_update(rows)
        self.size_bytes -= size_bytes
        if self._waiters:
            self._wake()
        if self._on_call_end:
            self.notify_call_end(dict.fromkeys(row.topic for row in rows))

    def on_call_end(self, topic: str, act: Callable[[], None] | None) -> None:
        """Call a function whenever calls with rows of a topic have ended.

        Args:
            topic: The topic.
            act: Called in the next turn of the loop; ``None``: nothing is called any more.
        """
        if act is None:
            self._on_call_end.pop(topic, None)
        else:
            self._on_call_end[topic] = act

    def notify_call_end(self, topics: Iterable[str]) -> None:
        """Report that calls with rows of these topics have ended."""
        for topic in topics:
            if topic in self._on_call_end:
                # Not now: rows that are about to be sent would look as if they still waited.
                asyncio.get_running_loop().call_soon(self._on_call_end[topic])

    def close(self) -> None:
        """Give everything up; rows in flight may have been stored."""
        self._on_call_end.clear()
        for row in self.rows:
            refusal = row.last_refusal
            before = "" if refusal is None else f" before another try, after: {refusal}"
            text = f"the producer was closed{before}"
            self.fail(row, CallError(text, outcome_unknown=row.in_flight))


class Backpressure:
    """Holds one call that sends much back, so that others send beside it."""

    def __init__(self, unsettled: Unsettled, bytes_max: int) -> None:
        self._unsettled = unsettled
        self._bytes_max = bytes_max
        # Nothing was taken yet: the first call checks for room.
        self._end_bytes = -1

    async def wait(self, taken_bytes: int) -> None:
        """Before another row, each so many bytes: let rows be sent, and wait for room."""
        if taken_bytes < self._end_bytes:
            return
        self._end_bytes = taken_bytes + self._bytes_max
        if self._unsettled.size_bytes:
            await asyncio.sleep(0)
            await self._unsettled.wait_for_room()


class ProducerParts(NamedTuple):
    """The parts of one producer that several of its rooms use."""

    session: Session
    """Connections and routes."""
    unsettled: Unsettled
    """The rows without an outcome."""
    latencies: BrokerLatencies
    """Which brokers are avoided."""
    unique_ids: UniqueIdGenerator
    settings: ProducerSettings
    clock: Clock
    random: Random
