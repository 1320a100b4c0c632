"""Avoiding brokers that failed or were slow, for a while and if another broker can take messages.

A broker that gave no answer is avoided for ``avoid_broker_s``, or until it answers.

With the queue choice by least latency, the duration of each call counts; a failed call counts as 10
s. Two rows of equal length, the ones of RocketMQ, give the time that the broker is then avoided::

    a call took at least     0.05   0.1   0.55   1.8    3     5     15   seconds
    then no messages for     0      0     2      5      6     10    30   seconds

A later call never shortens that time. Afterwards the broker counts like any other, until its next
call. If all brokers are avoided, the faster half of them gets the messages in turn, as in RocketMQ:
late is better than refused, and all messages at one broker would make that one slow, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.queues.queue_choice import StickyRoundRobin
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

LATEST_WEIGHT: Final = 0.3
"""How much the latest call weighs in the average of a broker's latency."""


class BrokerLatencies:
    """Recent latencies of a producer's brokers, and which brokers are avoided."""

    def __init__(self, settings: ProducerSettings, clock: Clock) -> None:
        """Avoid no broker yet.

        Raises:
            IllegalArgument: The two rows of the settings differ in length, or bounds do not ascend.
        """
        bounds_s = settings.latency_bounds_s
        self.counts_all = settings.queue_choice == "least_latency"
        """Whether every answer must be reported, or only those of avoided brokers."""
        if self.counts_all and len(bounds_s) != len(settings.unavailable_s):
            raise IllegalArgument("latency_bounds_s and unavailable_s differ in length")
        if self.counts_all and list(bounds_s) != sorted(set(bounds_s)):
            raise IllegalArgument("latency_bounds_s must ascend")
        self._settings = settings
        self._clock = clock
        self._average_s: dict[str, float] = {}
        self.left_alone: dict[str, float] = {}
        """The avoided brokers, each with the monotonic time at which that ends."""

    def unavailable_s(self, latency_s: float) -> float:
        """How long a broker is avoided after a call of this latency."""
        row = bisect_right(self._settings.latency_bounds_s, latency_s)
        return (0.0, *self._settings.unavailable_s)[row]

    def answered(self, broker_name: str, latency_s: float) -> None:
        """Note a call that was answered."""
        average_s = self._average_s.get(broker_name, latency_s)
        self._average_s[broker_name] = average_s + LATEST_WEIGHT * (latency_s - average_s)
        if self.counts_all:
            self._leave_alone(broker_name, self.unavailable_s(latency_s))
        else:
            self.left_alone.pop(broker_name, None)

    def failed(self, broker_name: str) -> None:
        """Note a call without an answer."""
        self.answered(broker_name, self._settings.failed_call_latency_s)
        self._leave_alone(broker_name, self._settings.avoid_broker_s)

    def _leave_alone(self, broker_name: str, duration_s: float) -> None:
        if duration_s:
            available_s = self._clock.monotonic_s() + duration_s
            self.left_alone[broker_name] = max(available_s, self.left_alone.get(broker_name, 0.0))

    def is_available(self, broker_name: str) -> bool:
        """Whether the broker is not avoided."""
        available_s = self.left_alone.get(broker_name)
        return available_s is None or self._clock.monotonic_s() >= available_s

    def average_s(self, broker_name: str) -> float:
        """A moving average of the broker's latency; 0 without any call."""
        return self._average_s.get(broker_name, 0.0)


class LeastLatency(StickyRoundRobin):
    """Sticky round robin among brokers that are not avoided; the faster half if all are."""

    def __init__(
        self, queues: Sequence[MessageQueue], first: int, latencies: BrokerLatencies
    ) -> None:
        super().__init__(queues, first)
        self._latencies = latencies

    def move_on(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        """Go to the next queue of the best broker.

        The best brokers are welcome and available; then come welcome ones, then available ones.
        Of brokers that are not available, the faster half has its turns.
        """
        brokers = {queue.broker_name for queue in self.queues}
        welcome = {name for name in brokers if is_welcome(name)}
        available = {name for name in brokers if self._latencies.is_available(name)}
        chosen = welcome & available
        if not chosen:
            chosen = self._faster_half(welcome) if welcome else available
        if not chosen:
            chosen = self._faster_half(brokers)
        return super().move_on(chosen.__contains__)

    def _faster_half(self, broker_names: set[str]) -> set[str]:
        """The faster half of some brokers; of an odd number, the one in the middle, too."""
        fastest_first = sorted(
            broker_names, key=lambda name: (self._latencies.average_s(name), name)
        )
        return set(fastest_first[: (len(fastest_first) + 1) // 2])
