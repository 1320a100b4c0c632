"""Brokers that failed or were slow get no messages for a while, as long as another can take them.

A broker that gave no answer is left alone for ``avoid_broker_s``, or until it answers.

By least latency, each call to a broker counts with the time that it took, one that failed with a
fixed time (10 s). Two tables of equal length, those of RocketMQ, say how long the broker is left
alone after that::

    a call took at least     0.05   0.1   0.55   1.8    3     5     15   seconds
    then no messages for     0      0     2      5      6     10    30   seconds

The time never becomes shorter by a later call. When it is over the broker is one like any other,
and the next call tells more. Are all brokers left alone, the one that was fastest of late gets the
messages: they are rather late than refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.batches.queue_choice import StickyRoundRobin
from ariane_sdk.runtime.clock import Clock

LATEST_SHARE: Final = 0.3
"""How much the latest call weighs in the average of a broker's latency."""


class UnavailabilityTable:
    """How long a broker is left alone after a call that took so long."""

    __slots__ = ("_bounds_s", "_durations_s")

    def __init__(self, bounds_s: Sequence[float], durations_s: Sequence[float]) -> None:
        """Take the two rows.

        Raises:
            IllegalArgument: The rows differ in length, or bounds do not ascend.
        """
        if len(bounds_s) != len(durations_s):
            raise IllegalArgument("latency_bounds_s and unavailable_s differ in length")
        if list(bounds_s) != sorted(set(bounds_s)):
            raise IllegalArgument("latency_bounds_s must ascend")
        self._bounds_s = tuple(bounds_s)
        self._durations_s = (0.0, *durations_s)

    def duration_s(self, latency_s: float) -> float:
        """How long a broker is left alone after a call of this latency."""
        return self._durations_s[bisect_right(self._bounds_s, latency_s)]


class BrokerLatencies:
    """How fast the brokers of one producer answered of late, and which are to be left alone.

    Attributes:
        counts_all: Whether every answer is to be told, or only that of a broker that is left alone.
        left_alone: Until when each of these brokers is, by the monotonic clock.
    """

    __slots__ = (
        "_average_s",
        "_avoid_s",
        "_clock",
        "_failed_call_s",
        "_table",
        "counts_all",
        "left_alone",
    )

    def __init__(
        self,
        table: UnavailabilityTable | None,
        *,
        failed_call_s: float,
        avoid_s: float = 0.0,
        clock: Clock,
    ) -> None:
        """Know of no call yet."""
        self._table = table
        self.counts_all = table is not None
        self._avoid_s = avoid_s
        self._failed_call_s = failed_call_s
        self._clock = clock
        self._average_s: dict[str, float] = {}
        self.left_alone: dict[str, float] = {}

    def answered(self, broker_name: str, latency_s: float) -> None:
        """Take note of a call that was answered."""
        average_s = self._average_s.get(broker_name, latency_s)
        self._average_s[broker_name] = average_s + LATEST_SHARE * (latency_s - average_s)
        if self._table is None:
            self.left_alone.pop(broker_name, None)
        else:
            self._leave_alone(broker_name, self._table.duration_s(latency_s))

    def failed(self, broker_name: str) -> None:
        """Take note of a call that got no answer."""
        self.answered(broker_name, self._failed_call_s)
        self._leave_alone(broker_name, self._avoid_s)

    def _leave_alone(self, broker_name: str, duration_s: float) -> None:
        if duration_s:
            available_s = self._clock.monotonic_s() + duration_s
            self.left_alone[broker_name] = max(available_s, self.left_alone.get(broker_name, 0.0))

    def is_available(self, broker_name: str) -> bool:
        """Whether a broker is to get messages."""
        available_s = self.left_alone.get(broker_name)
        return available_s is None or self._clock.monotonic_s() >= available_s

    def average_s(self, broker_name: str) -> float:
        """About how long its calls took of late; 0 if there was none."""
        return self._average_s.get(broker_name, 0.0)


class LeastLatency(StickyRoundRobin):
    """Sticky round robin among available brokers; the fastest of late when there is none."""

    __slots__ = ("_latencies",)

    def __init__(
        self, queues: Sequence[MessageQueue], first: int, latencies: BrokerLatencies
    ) -> None:
        """Stick to a queue."""
        super().__init__(queues, first)
        self._latencies = latencies

    def move_on(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        """Go on to the next queue of the best broker.

        Best are those that are welcome and available, then those that are welcome, then those that
        are available; of several that are not available, the fastest.
        """
        brokers = {queue.broker_name for queue in self.queues}
        welcome = {name for name in brokers if is_welcome(name)}
        available = {name for name in brokers if self._latencies.is_available(name)}
        chosen = welcome & available
        if not chosen:
            chosen = {self._fastest(welcome)} if welcome else available
        if not chosen:
            chosen = {self._fastest(brokers)}
        return super().move_on(chosen.__contains__)

    def _fastest(self, broker_names: set[str]) -> str:
        return min(sorted(broker_names), key=self._latencies.average_s)
