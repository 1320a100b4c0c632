"""Backoffs of an outbox: a failed topic or broker is not used for a while, longer each time."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_sdk.net.backoff import backoff_s
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.sql._outbox.pulse import RelayPulse


@dataclass(slots=True)
class _Backoff:
    """Failures in a row."""

    count: int
    """How many."""
    until_s: float
    """When to try again, by the monotonic clock."""


class OutboxBackoffs:
    """Backoffs by topic and broker, and of topics without a route."""

    def __init__(
        self, clock: Clock, pulse: RelayPulse, *, delay_s_min: float, delay_s_max: float
    ) -> None:
        """The delay after the first failure is ``delay_s_min``; it doubles each time."""
        self._clock = clock
        self._pulse = pulse
        self._delay_s_min = delay_s_min
        self._delay_s_max = delay_s_max
        self._backoffs: dict[tuple[str, str], _Backoff] = {}

    def note(self, topic: str, broker_name: str, error: Exception | None) -> None:
        """Note a failure.

        Args:
            topic: The topic.
            broker_name: The broker; empty if the topic has no route.
            error: The error.
        """
        backoff = self._backoffs.setdefault((topic, broker_name), _Backoff(0, 0.0))
        delay_s = backoff_s(backoff.count, self._delay_s_min, self._delay_s_max)
        backoff.count += 1
        backoff.until_s = self._clock.monotonic_s() + delay_s
        if error is not None:
            self._pulse.failed(error)
        where = f"{topic} at {broker_name}" if broker_name else topic
        logger.warning("messages of the outbox for %s wait: %s", where, error)

    def end(self, topic: str, broker_name: str) -> None:
        """Forget the failures: it works again."""
        self._backoffs.pop((topic, broker_name), None)

    def is_over(self, topic: str, broker_name: str) -> bool:
        """Whether it may be tried now."""
        backoff = self._backoffs.get((topic, broker_name))
        return backoff is None or backoff.until_s <= self._clock.monotonic_s()

    def nowhere(self) -> list[str]:
        """Topics without a route whose delay is not over."""
        return [
            topic
            for topic, broker_name in self._backoffs
            if not broker_name and not self.is_over(topic, "")
        ]
