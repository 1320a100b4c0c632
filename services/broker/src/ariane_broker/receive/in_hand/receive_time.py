"""The clock of invisible times: setting the machine's clock makes no message visible or invisible.

A broker stores the end of an invisible time as a time of its machine's clock, which is valid after
restarts and on other brokers. When that clock is set, all these times move along, and an event in
the log records it. The monotonic clock, which cannot be set, shows by how much::

    clock      12:00:00 ... 12:00:20 | 13:00:20 ... 13:01:00
    invisible  until 12:01:00        | until 13:01:00
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable

JUMP_MS_MIN: Final = 1000
"""Smaller differences do not count as a setting of the clock."""


class ReceiveTime:
    """The clock of all parts that hand out, hide and show messages."""

    def __init__(
        self,
        log: ReceiveLog,
        table: ReceiveTable,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._table = table
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._seen = now_ms(), monotonic()

    def now_ms(self) -> int:
        """Milliseconds since the epoch.

        Raises:
            StorageError: The clock was set, and the event cannot be written.
        """
        now_ms, monotonic = self._now_ms(), self._monotonic()
        seen_ms, seen_monotonic = self._seen
        jump_ms = now_ms - seen_ms - round((monotonic - seen_monotonic) * 1000)
        if abs(jump_ms) >= JUMP_MS_MIN and self._table.groups():
            self._log.write([ReceiveEvent(EventKind.SHIFT, until_ms=jump_ms)])
        self._seen = now_ms, monotonic
        return now_ms
