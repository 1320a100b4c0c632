"""The window of one message queue: messages that were pulled and are not finished.

::

    queue offsets   40 ............ 52 ............ 60 ............ 75 ..............
                    [ in work      ][ in work      ][ waits         ]
                    ^ consumer offset                                ^ next pull offset

Deliveries may be finished in any order. The consumer offset is the smallest unfinished offset, so
that a restart repeats messages and never skips one. If all are finished, it is the next pull
offset, so that messages that a filter left out are not looked at again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final

from ariane_sdk.message import ReceivedMessage

ROOM_SHARE_MIN: Final = 2
"""A queue is pulled again when half of its limits are free, not for each single message."""


@dataclass(slots=True, eq=False)
class Delivery:
    """Messages that were taken together, for one call of the listener or for several."""

    messages: Sequence[ReceivedMessage]
    """The messages in the order of the queue."""
    begin_offset: int
    """Queue offset of the first."""
    size_bytes: int
    """Bytes of their records."""
    finished: bool = False
    """Whether the listener has finished them."""
    done_count: int = 0
    """Number of leading messages that are finished; less than all."""

    @property
    def unfinished_offset(self) -> int:
        """Queue offset of the first unfinished message."""
        done_count = self.done_count
        return self.messages[done_count].queue_offset if done_count else self.begin_offset

    def finish_before(self, message: ReceivedMessage) -> None:
        """Note that all messages before one of these are finished."""
        self.done_count = bisect_left(
            self.messages, message.queue_offset, key=attrgetter("queue_offset")
        )


class _Chunk:
    """The messages of one pull; those from ``position`` on still wait."""

    __slots__ = ("messages", "position", "sizes_before")

    def __init__(self, messages: Sequence[ReceivedMessage], sizes: Iterable[int]) -> None:
        self.messages = messages
        self.position = 0
        self.sizes_before = [0, *accumulate(sizes)]


class QueueWindow:
    """Messages of one queue from their pull until they are finished."""

    __slots__ = (
        "_chunks",
        "_in_work",
        "_last_offset",
        "message_count",
        "next_pull_offset",
        "size_bytes",
        "taken_end",
    )

    def __init__(self, begin_offset: int) -> None:
        self.next_pull_offset = begin_offset
        """Where the next pull reads."""
        self.message_count = 0
        """Messages that wait or are in work."""
        self.size_bytes = 0
        """Bytes of their records."""
        self.taken_end = begin_offset
        """Queue offset behind the last message given to the listener."""
        self._chunks: deque[_Chunk] = deque()
        self._in_work: deque[Delivery] = deque()
        self._last_offset = begin_offset

    @property
    def consumer_offset(self) -> int:
        """The smallest unfinished queue offset."""
        if self._in_work:
            return self._in_work[0].unfinished_offset
        return self._first_waiting_offset

    @property
    def span(self) -> int:
        """Distance of the newest from the oldest unfinished message."""
        return self._last_offset - self.consumer_offset if self.message_count else 0

    @property
    def waiting_count(self) -> int:
        """Messages that were not taken yet."""
        return sum(len(chunk.messages) - chunk.position for chunk in self._chunks)

    @property
    def oldest_store_ms(self) -> int | None:
        """When the first unfinished message was stored; None if there is none."""
        if self._in_work:
            first = self._in_work[0]
            return first.messages[first.done_count].store_timestamp_ms
        if self._chunks:
            chunk = self._chunks[0]
            return chunk.messages[chunk.position].store_timestamp_ms
        return None

    def taken_counts(self) -> list[int]:
        """How many messages of each delivery are unfinished, the oldest delivery first."""
        return [
            len(delivery.messages) - delivery.done_count
            for delivery in self._in_work
            if not delivery.finished
        ]

    def has_room(self, *, count_max: int, bytes_max: int, span_max: int) -> bool:
        """Whether enough of these limits is free for another pull."""
        return (
            self.message_count * ROOM_SHARE_MIN <= count_max
            and self.size_bytes * ROOM_SHARE_MIN <= bytes_max
            and self.span < span_max
        )

    def put(
        self,
        messages: Sequence[ReceivedMessage],
        next_offset: int,
        sizes: Iterable[int] | None = None,
    ) -> None:
        """Add the messages of a pull.

        Args:
            messages: In the order of the queue, after the filter.
            next_offset: Where the next pull reads.
            sizes: Bytes of their records, if known already.
        """
        self.next_pull_offset = next_offset
        if messages:
            if sizes is None:
                sizes = (message.size_bytes for message in messages)
            chunk = _Chunk(messages, sizes)
            self._chunks.append(chunk)
            self._last_offset = messages[-1].queue_offset
            self.message_count += len(messages)
            self.size_bytes += chunk.sizes_before[-1]

    def take(
        self, count_max: int, is_single: Callable[[ReceivedMessage], bool] | None = None
    ) -> Delivery | None:
        """Take the next messages for the listener; None if none wait.

        Args:
            count_max: Messages at most, at least one.
            is_single: Whether a message must be delivered alone.
        """
        chunks = self._chunks
        if not chunks:
            return None
        begin_offset = self._first_waiting_offset
        if is_single is not None:
            count_max = self._count_together(count_max, is_single)
        messages: list[ReceivedMessage] = []
        size_bytes = 0
        while chunks and len(messages) < count_max:
            chunk = chunks[0]
            begin = chunk.position
            end = min(begin + count_max - len(messages), len(chunk.messages))
            messages += chunk.messages[begin:end]
            size_bytes += chunk.sizes_before[end] - chunk.sizes_before[begin]
            chunk.position = end
            if end < len(chunk.messages):
                break
            chunks.popleft()
        delivery = Delivery(messages, begin_offset, size_bytes)
        self.taken_end = messages[-1].queue_offset + 1
        self._in_work.append(delivery)
        return delivery

    def finish(self, delivery: Delivery) -> None:
        """Mark a delivery as finished."""
        delivery.finished = True
        self.message_count -= len(delivery.messages)
        self.size_bytes -= delivery.size_bytes
        while self._in_work and self._in_work[0].finished:
            self._in_work.popleft()

    def drop_waiting(self) -> None:
        """Drop messages that the listener has not got; the next pull would read them again."""
        self.next_pull_offset = self._first_waiting_offset
        for chunk in self._chunks:
            self.message_count -= len(chunk.messages) - chunk.position
            self.size_bytes -= chunk.sizes_before[-1] - chunk.sizes_before[chunk.position]
        self._chunks.clear()

    @property
    def next_take_offset(self) -> int:
        """Queue offset of the first waiting message; the next pull offset if none waits."""
        return self._first_waiting_offset

    @property
    def _first_waiting_offset(self) -> int:
        if not self._chunks:
            return self.next_pull_offset
        chunk = self._chunks[0]
        return chunk.messages[chunk.position].queue_offset

    def _count_together(self, count_max: int, is_single: Callable[[ReceivedMessage], bool]) -> int:
        """The number of waiting messages to deliver together."""
        waiting = (
            chunk.messages[position]
            for chunk in self._chunks
            for position in range(chunk.position, len(chunk.messages))
        )
        for count, message in enumerate(islice(waiting, count_max)):
            if is_single(message):
                return max(1, count)
        return count_max
