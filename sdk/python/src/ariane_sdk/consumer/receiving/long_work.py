"""Tells of messages that a listener has had for a long time.

Brokers keep a message invisible as long as the consumer runs, so nobody else gets what a listener
is stuck with, and without this nobody would know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ariane_record.counted import counted
from ariane_sdk.client.listener import STANDSTILL_S
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger


class LongWork:
    """The messages that a listener has now."""

    def __init__(self, group: str, clock: Clock) -> None:
        """Begin without messages."""
        self._group = group
        self._clock = clock
        self._since_s: dict[int, tuple[ReceivedMessage, float]] = {}
        self._number = 0
        self._warned_of = 0
        self._warn_after_s = STANDSTILL_S

    @contextmanager
    def on(self, message: ReceivedMessage) -> Iterator[None]:
        """Note that the listener has a message."""
        self._number += 1
        number = self._number
        self._since_s[number] = message, self._clock.monotonic_s()
        try:
            yield
        finally:
            del self._since_s[number]

    def look(self) -> None:
        """Tell of the oldest message if it is old, and again when twice as long has passed."""
        if not self._since_s:
            return
        number, (message, since_s) = next(iter(self._since_s.items()))
        if number != self._warned_of:
            self._warned_of, self._warn_after_s = number, STANDSTILL_S
        old_s = self._clock.monotonic_s() - since_s
        if old_s < self._warn_after_s:
            return
        self._warn_after_s *= 2
        logger.warning(
            "%s of group %s: no progress for %.0f s; the listener has %s, the oldest is %s"
            " (ariane group running %s --stacks shows where it is)",
            message.message_queue,
            self._group,
            old_s,
            counted(len(self._since_s), "message"),
            message.unique_id,
            self._group,
        )
