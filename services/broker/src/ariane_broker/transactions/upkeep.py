"""Upkeep of transactions: writes owed op records, and stores ageing half messages anew.

Retention deletes nothing behind the oldest half message without an outcome. To keep a single one
from holding the whole log, it is stored anew at the end when it ages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    carried_forward,
    half_message_of,
    op_record,
    superseded_record,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record.errors import RecordError
from ariane_record.names import HALF_TOPIC, OP_TOPIC
from ariane_record.single.record_copy import copied_block
from ariane_servicekit import get_logger, in_turns
from ariane_storage.errors import StorageError, StoreFull, StorePoisoned

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TransactionUpkeep:
    """Runs the upkeep now and then."""

    log: BrokerLog
    table: TransactionTable
    _: KW_ONLY
    now_ms: Callable[[], int]
    believed_ms: Callable[[], int]
    """Like ``now_ms``, for ages; it doubts jumps of the clock."""
    retention_ms: float
    """How long the log is kept. A half message is stored anew after half of it."""
    is_pressed: Callable[[], bool]
    """Whether young segments must go, too, for lack of space."""
    segment_bytes: int

    async def turn(self) -> None:
        """Write owed op records, and store ageing half messages anew."""
        await in_turns(self.settle())
        self.table.forget_before(self.log.store.min_offset)
        if not self.table.pending_count:
            return
        old: int = self.log.store.offset_before(round(self.believed_ms() - self.retention_ms / 2))
        if self.is_pressed():
            old = max(old, self.log.store.max_offset - self.segment_bytes)
        count = len(await in_turns(self.carry_forward(old)))
        await in_turns(self.settle())
        if count:
            _log.info("half_messages_carried_forward", count=count)

    def settle(self) -> Iterator[None]:
        """Write the op records that a crash or a full disk has left owed.

        Raises:
            StorePoisoned: The disk failed.
        """
        for half, decision in self.table.owed():
            yield
            if not self.table.is_owed(half):
                continue
            try:
                self._write_op(half, decision)
            except StoreFull:
                return  # The next turn tries again.

    def carry_forward(self, commit_log_offset: int) -> Iterator[HalfMessage | None]:
        """Store half messages before a place in the log anew; yields each, None for others.

        Retention deletes old records, and a half message must never expire silently.

        Raises:
            StorePoisoned: The disk failed.
        """
        for half in self.table.pending():
            is_pending = self.table.find(half.transaction_id) == half
            if half.commit_log_offset >= commit_log_offset or not is_pending:
                yield None
                continue
            if half.commit_log_offset < self.log.store.deleted_end(half.topic):
                # Stored anew it would pass for one of a later topic of the name.
                self.table.roll_back_orphan(half)
                continue
            try:
                fields = self.log.store.message_at(half.commit_log_offset)
                record = carried_forward(fields, half)
                appended = self.log.append_records(HALF_TOPIC, [record])
            except StoreFull:
                break
            except StorePoisoned:
                raise
            except (StorageError, RecordError) as error:
                # It keeps waiting where it is, and the log is kept.
                _log.warning(
                    "half_message_not_carried_forward",
                    transaction_id=half.transaction_id,
                    commit_log_offset=half.commit_log_offset,
                    cause=str(error),
                )
                yield None
                continue
            anew = half_message_of(
                record,
                queue_offset=int(appended.first_queue_offset),
                commit_log_offset=int(appended.first_commit_log_offset),
                store_timestamp_ms=appended.store_timestamp_ms,
            )
            if anew is not None:
                self.table.stored(anew)
            yield anew

    def _write_op(self, half: HalfMessage, decision: Decision | None) -> None:
        now_ms = self.now_ms()
        if decision is None:
            self.log.append_records(OP_TOPIC, [superseded_record(half.queue_offset, now_ms)])
        else:
            op = op_record(half, decision.outcome, now_ms)
            self.log.append(copied_block(OP_TOPIC, [op]))
        self.table.settled(half.queue_offset)
