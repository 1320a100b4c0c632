"""Very many tiny batches are sent in turns: the broker stores some while the client fills others.

With 1,024 messages in flight to 256 topics a batch has 4 messages. If one call took all batches,
client and broker would work in turn. With two calls, each batch would be open for half as many
messages, and more batches cost more. So there are more turns than calls in flight::

    waiting    [ 1st quarter ][ 2nd quarter ][ 3rd quarter ][ 4th quarter ]   all still grow
                      |
    in flight  [ a quarter ][ a quarter ]                                     two calls at most

A batch waits until three quarters have been sent before it, which takes longer than its call: it
collects more messages than a batch that is sent with all others, not fewer. The batches that have
waited longest are sent first, so no message waits for more than the turns before its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ariane_sdk.producer.batches.send_batch import SendBatch

BATCHES_PER_CALL_MAX: Final = 4096
"""Brokers accept no more in one call."""

STAGGERED_BATCHES_MIN: Final = 24
"""Fewer batches are sent together: they are not enough for several calls."""

TURNS: Final = 4
"""The number of calls in which all waiting batches are sent."""

CALL_COUNT_MIN: Final = 64
"""The least number of messages in a call, so that the cost of the call itself is small."""

TINY_BATCH_COUNT: Final = 48
"""In batches of at least this many messages, the messages are the main cost."""

TINY_BATCH_BYTES: Final = 64 << 10
"""In batches of at least this many bytes, the bytes are the main cost."""

STAGGERED_CALLS_MAX: Final = 2
"""Calls at the same time: one that the broker works on, and one that is settled or made."""


class CallLimits(NamedTuple):
    """The limits of a call, by messages and batches.

    Attributes:
        message_count: Number of messages.
        batch_count: Number of batches.
    """

    message_count: int
    batch_count: int


class StaggeredCalls:
    """Decides whether the batches for one broker are sent in turns, and how many at a time.

    Attributes:
        active: Whether they are sent in turns.
    """

    __slots__ = ("_turn_size", "active")

    def __init__(self) -> None:
        self.active = False
        self._turn_size = 0

    def plan(
        self, waiting: Collection[SendBatch], batches_in_flight: int, outstanding: int
    ) -> None:
        """Decide by the waiting batches, before any is sent."""
        batch_count = len(waiting)
        if self.active:
            self.active = (
                batch_count + batches_in_flight >= STAGGERED_BATCHES_MIN
                and outstanding >= STAGGERED_CALLS_MAX * CALL_COUNT_MIN
            )
        elif batch_count >= STAGGERED_BATCHES_MIN and outstanding >= TURNS * CALL_COUNT_MIN:
            count = sum(batch.count for batch in waiting)
            size_bytes = sum(batch.wire_bytes for batch in waiting)
            self.active = _are_tiny(batch_count, count, size_bytes)
            self._turn_size = 0

    def stop(self) -> None:
        """Send all batches together again."""
        self.active = False

    def limits(self, waiting_count: int) -> CallLimits:
        """The limits of the next call, while ``active``."""
        self._turn_size = turn_size(waiting_count, self._turn_size)
        return CallLimits(CALL_COUNT_MIN, self._turn_size)

    def sent(self, batch_count: int, count: int, size_bytes: int) -> None:
        """Decide by the batches just sent whether batches are still tiny."""
        if self.active and batch_count:
            self.active = _are_tiny(batch_count, count, size_bytes)


def turn_size(waiting_count: int, last_size: int) -> int:
    """Number of batches that are sent in one turn."""
    # A quarter of a shrinking number, each time, would never send all of it.
    return min(BATCHES_PER_CALL_MAX, max(-(-waiting_count // TURNS), last_size * 7 // 8))


def _are_tiny(batch_count: int, count: int, size_bytes: int) -> bool:
    """Whether the batches cost more than the messages in them."""
    return count < TINY_BATCH_COUNT * batch_count and size_bytes < TINY_BATCH_BYTES * batch_count
