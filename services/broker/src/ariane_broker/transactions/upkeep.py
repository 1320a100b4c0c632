"""What transactions need besides calls: op records that are owed, half messages that grow old.

Retention deletes nothing behind the oldest half message without an outcome. So that one of them
does not keep the whole log, it is stored anew at the end when it grows old.
"""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.transactions.ending import TransactionEnds
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_servicekit import get_logger
from ariane_storage.store import Store

_log = get_logger(__name__)


class TransactionUpkeep:
    """Takes a turn now and then."""

    def __init__(
        self,
        log: Store,
        table: TransactionTable,
        ends: TransactionEnds,
        *,
        now_ms: Callable[[], int],
        retention_ms: float,
        is_pressed: Callable[[], bool],
        segment_bytes: int,
    ) -> None:
        """Take the parts.

        Args:
            log: The store.
            table: The transactions of this broker.
            ends: Writes what is owed.
            now_ms: Milliseconds since the epoch.
            retention_ms: How long the log is kept. A half message is stored anew when half of it
                has passed.
            is_pressed: Whether segments would have to go however young, for lack of space.
            segment_bytes: Length of a segment of the log.
        """
        self._log = log
        self._table = table
        self._ends = ends
        self._now_ms = now_ms
        self._retention_ms = retention_ms
        self._is_pressed = is_pressed
        self._segment_bytes = segment_bytes

    async def turn(self) -> None:
        """Write what is owed, and store anew what grows old."""
        self._ends.settle()
        for half in self._table.forget_before(self._log.min_offset):
            _log.error(
                "half_message_lost",
                transaction_id=half.transaction_id,
                topic=half.topic,
                commit_log_offset=half.commit_log_offset,
            )
        if not self._table.pending_count:
            return
        old: int = self._log.offset_before(round(self._now_ms() - self._retention_ms / 2))
        if self._is_pressed():
            old = max(old, self._log.max_offset - self._segment_bytes)
        count = self._ends.carry_forward(old)
        if count:
            _log.info("half_messages_carried_forward", count=count)
