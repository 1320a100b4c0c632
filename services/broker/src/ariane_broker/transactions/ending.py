"""Ending transactions: the first outcome stands, and everybody is told which it is.

Message and op record are appended in one turn of the loop; then the call waits for what the broker
promises. An outcome that memory has forgotten is looked up in the log, by its op record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from ariane_broker.errors import (
    topic_not_found,
    transaction_decided,
    transaction_foreign,
    transaction_not_found,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.wire.stored_message import StoredPlace
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    Outcome,
    carried_forward,
    committed_copy,
    decision_of_op,
    half_message_of,
    op_block,
    parked_copy,
    superseded_record,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import RecordFields
from ariane_record.names import CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC, OP_TOPIC
from ariane_record.single.record_copy import RecordCopy, copied_block
from ariane_servicekit import get_logger
from ariane_servicekit.errors import field_invalid
from ariane_storage.errors import (
    RecordCorrupted,
    RecordNotFound,
    StorageError,
    StoreFull,
    StorePoisoned,
)

CHECK_COUNT_MAX: Final = 1_000_000
_EVER_MS: Final = 1 << 62

_log = get_logger(__name__)


class EndWish(NamedTuple):
    """How a transaction shall end, and who says so.

    Attributes:
        topic: The topic of the message.
        transaction_id: Names the transaction.
        unique_id: The unique id of the half message, by which the transaction is named.
        outcome: How it shall end; None is an illegal one.
        producer_group: The group of who says so, which must be that of the half message.
    """

    topic: str
    transaction_id: str
    unique_id: str
    outcome: Outcome | None
    producer_group: str


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a transaction.

    Attributes:
        outcome: The outcome that stands.
        message: Where the message lies that a commit made visible; None after a rollback, and
            when the log has deleted it since.
        level: How safe the outcome is.
        duplicate: Whether it had this outcome before.
    """

    outcome: Outcome
    message: RecordFields | StoredPlace | None
    level: AcknowledgedLevel
    duplicate: bool


class TransactionEnds:
    """Ends transactions, and parks those that nobody ends."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        find_topic: Callable[[str], TopicConfig | None],
        *,
        now_ms: Callable[[], int],
    ) -> None:
        """Take the parts.

        Args:
            log: Where outcomes are written.
            table: The transactions of this broker.
            find_topic: The topic of a name, or None.
            now_ms: Milliseconds since the epoch.
        """
        self._log = log
        self._table = table
        self._find_topic = find_topic
        self._now_ms = now_ms

    async def end(self, wish: EndWish) -> Ended:
        """End a transaction, or learn how it ended.

        Args:
            wish: How it shall end, and who says so.

        Raises:
            ServiceError: TRANSACTION_DECIDED when it ended otherwise, TRANSACTION_NOT_FOUND,
                TOPIC_NOT_FOUND when there is none to commit to, TRANSACTION_FOREIGN for another
                group or unique id, FIELD_INVALID without a legal outcome, FLUSH_UNCONFIRMED.
            StorageError: It has no outcome yet.
        """
        if wish.outcome is None:
            raise field_invalid("outcome", "must be commit or rollback")
        transaction_id = wish.transaction_id
        if wish.unique_id != transaction_id:
            raise transaction_foreign(transaction_id, "unique_id", wish.unique_id)
        half = self._table.find(transaction_id)
        if half is None or half.topic != wish.topic:
            return await self._standing(wish.topic, transaction_id, wish.outcome)
        if wish.producer_group != half.producer_group:
            raise transaction_foreign(transaction_id, "producer_group", wish.producer_group)
        if wish.outcome is Outcome.ROLLBACK:
            decision = self._roll_back(half)
        else:
            copy = await self._log.copy_at(half.commit_log_offset)
            if self._table.find(transaction_id) is not half:
                # Another one was faster, or it was stored anew.
                return await self.end(wish)
            decision = self._commit(half, copy)
        return await self._ended(decision, duplicate=False)

    async def park(self, transaction_id: str, check_count: int) -> bool:
        """Put a half message aside; whether it had been before.

        Raises:
            ServiceError: TRANSACTION_DECIDED, TRANSACTION_NOT_FOUND, FLUSH_UNCONFIRMED.
            StorageError: It is not put aside.
        """
        if not 0 <= check_count <= CHECK_COUNT_MAX:
            raise field_invalid("check_count", f"must be 0 to {CHECK_COUNT_MAX}", check_count)
        half = self.waiting(transaction_id)
        duplicate = half.parked
        if not duplicate:
            fields = await self._log.message_at(half.commit_log_offset)
            half = self.waiting(transaction_id)
            duplicate = half.parked
            if not duplicate:
                copy = parked_copy(fields, check_count)
                self._log.append_records(CHECKS_EXHAUSTED_TOPIC, [copy])
                self._table.parked(transaction_id)
        await self._log.promised()
        return duplicate

    def waiting(self, transaction_id: str) -> HalfMessage:
        """A half message without an outcome.

        Raises:
            ServiceError: TRANSACTION_DECIDED with the outcome that stands, TRANSACTION_NOT_FOUND.
        """
        half = self._table.find(transaction_id)
        if half is not None:
            return half
        decision = self._find_decision(transaction_id)
        if decision is None:
            raise transaction_not_found(transaction_id)
        raise transaction_decided(transaction_id, decision.outcome)

    def settle(self) -> None:
        """Write op records that a crash or a full disk has left owed.

        Raises:
            StorePoisoned: The disk failed.
        """
        for half, decision in self._table.owed():
            try:
                self._write_op(half, decision)
            except StoreFull:
                return  # Asked again later.

    def carry_forward(self, commit_log_offset: int) -> int:
        """Store anew the half messages that lie before a place in the log; how many.

        Retention deletes what is old, and a half message never expires silently.

        Raises:
            StorePoisoned: The disk failed.
        """
        count = 0
        for half in self._table.pending():
            if half.commit_log_offset >= commit_log_offset:
                continue
            try:
                fields = self._log.store.message_at(half.commit_log_offset)
                record = carried_forward(fields, half)
                appended = self._log.append_records(HALF_TOPIC, [record])
            except StoreFull:
                break
            except StorePoisoned:
                raise
            except StorageError as error:
                _log.warning(
                    "half_message_unreadable",
                    transaction_id=half.transaction_id,
                    commit_log_offset=half.commit_log_offset,
                    cause=str(error),
                )
                continue
            anew = half_message_of(
                record,
                queue_offset=int(appended.first_queue_offset),
                commit_log_offset=int(appended.first_commit_log_offset),
                store_timestamp_ms=appended.store_timestamp_ms,
            )
            if anew is not None:
                self._table.stored(anew)
                count += 1
        self.settle()
        return count

    def _commit(self, half: HalfMessage, copy: RecordCopy) -> Decision:
        """The message first, then the op record; nothing is waited for in between."""
        config = self._find_topic(half.topic)
        if config is None:
            raise topic_not_found(half.topic)
        queue_id = queue_for(half, config)
        block = copied_block(half.topic, [committed_copy(copy, half)])
        appended = self._log.append(block, queue_id, born_host=copy.born_host)
        decision = Decision(
            half.transaction_id,
            half.topic,
            Outcome.COMMIT,
            int(appended.first_commit_log_offset),
        )
        self._table.decided(decision)
        with suppress(StoreFull):
            # The message stands without it: then the op record stays owed.
            self._write_op(half, decision)
        return decision

    def _roll_back(self, half: HalfMessage) -> Decision:
        appended = self._log.append(op_block([(half, None)], self._now_ms()))
        place = int(appended.first_commit_log_offset)
        decision = Decision(half.transaction_id, half.topic, Outcome.ROLLBACK, place)
        self._table.decided(decision)
        self._table.settled(half.queue_offset)
        return decision

    def _write_op(self, half: HalfMessage, decision: Decision | None) -> None:
        now_ms = self._now_ms()
        if decision is None:
            self._log.append_records(OP_TOPIC, [superseded_record(half.queue_offset, now_ms)])
        else:
            self._log.append(op_block([(half, decision)], now_ms))
        self._table.settled(half.queue_offset)

    async def _standing(self, topic: str, transaction_id: str, outcome: Outcome) -> Ended:
        """The outcome of a transaction that is not pending.

        Raises:
            ServiceError: TRANSACTION_DECIDED, TRANSACTION_NOT_FOUND.
        """
        decision = self._find_decision(transaction_id)
        if decision is None or decision.topic != topic:
            raise transaction_not_found(transaction_id)
        ended = await self._ended(decision, duplicate=True)
        if decision.outcome is not outcome:
            raise transaction_decided(transaction_id, decision.outcome)
        return ended

    async def _ended(self, decision: Decision, *, duplicate: bool) -> Ended:
        place = decision.commit_log_offset
        level = await self._log.promised(min(self._log.store.max_offset, place + 1))
        message = None
        if decision.outcome is Outcome.COMMIT:
            with suppress(RecordNotFound, RecordCorrupted):
                message = self._log.store.message_at(place)
        return Ended(decision.outcome, message, level, duplicate)

    def _find_decision(self, transaction_id: str) -> Decision | None:
        """From memory, or else from the log."""
        decision = self._table.decision(transaction_id)
        if decision is not None or not transaction_id:
            return decision
        found = self._log.store.query_by_key(
            OP_TOPIC, transaction_id, begin_ms=0, end_ms=_EVER_MS, max_count=1
        )
        return decision_of_op(found[0]) if found else None


def queue_for(half: HalfMessage, config: TopicConfig) -> int:
    """The queue that a half message becomes visible in."""
    if half.queue_id < max(config.read_queue_count, config.write_queue_count):
        return half.queue_id
    # Queues were taken away since: better another one than a message that is lost.
    return half.queue_id % max(1, config.write_queue_count)
