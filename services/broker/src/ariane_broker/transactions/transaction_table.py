"""Half messages that wait for an outcome, and recent outcomes, rebuilt from the log.

::

    half record        -> pending
    committed message  -> decided: COMMIT; its op record is still owed
    op record          -> decided: ROLLBACK, unless it was committed; nothing is owed any more
    parked copy        -> pending, and put aside

The message is written before its op record, and names its half message. A crash between the two
leaves the message: it is visible, so the transaction is committed, and the op record is written
later. A crash before both leaves the half message pending. There is no other case.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final

from ariane_broker.log.broker_log import SYSTEM_QUEUE_ID
from ariane_broker.log.derived.log_rows import is_committed, is_of_topic, records_where
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    Outcome,
    committed_transaction_id,
    decision_of_op,
    half_message_of,
    settled_queue_offsets,
)
from ariane_record import RecordFields
from ariane_record.names import CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC, OP_TOPIC
from ariane_servicekit import get_logger
from ariane_storage.log.scan import Stretch

_log = get_logger(__name__)

_row_of_half = attrgetter(*HalfMessage.__match_args__)
_row_of_decision = attrgetter(*Decision.__match_args__)


class TransactionTable(SnapshotState):
    """The transactions of this broker."""

    snapshot_version = 2

    name: Final = "transactions"
    """Name of this state in the process's log."""
    matters_since_ms: Final = None

    def __init__(self, *, decision_count_max: int) -> None:
        """Remember this many outcomes; older ones are in the log."""
        self._decision_count_max = decision_count_max
        # By transaction id, oldest first: queue offsets ascend.
        self._pending: dict[str, HalfMessage] = {}
        self._ids: dict[int, str] = {}
        self._count_of: Counter[str] = Counter()
        # Oldest first; finding the first entry of a plain dictionary means skipping deleted ones.
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        # Decided half messages without an op record in the log, each with its outcome, which may be
        # forgotten before; one that is stored anew has none.
        self._owed: dict[int, tuple[HalfMessage, Decision | None]] = {}
        self.change_count = 0
        """Grows with every change."""

    @property
    def pending_count(self) -> int:
        """Half messages without an outcome."""
        return len(self._pending)

    def pending_count_of(self, topic: str) -> int:
        """Those of one topic."""
        return self._count_of[topic]

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset of the oldest half message without an outcome; None without any."""
        oldest = next(iter(self._pending.values()), None)
        return None if oldest is None else oldest.commit_log_offset

    def find(self, transaction_id: str) -> HalfMessage | None:
        """Return a half message without an outcome, or None."""
        return self._pending.get(transaction_id)

    def decision(self, transaction_id: str) -> Decision | None:
        """Return the outcome of a transaction that ended recently, or None."""
        return self._decisions.get(transaction_id)

    def pending(self) -> list[HalfMessage]:
        """All half messages without an outcome, by queue offset in the half topic."""
        return list(self._pending.values())

    def owed(self) -> list[tuple[HalfMessage, Decision | None]]:
        """Settled half messages whose op records are not in the log yet.

        Each with its outcome, if known; a half message that is stored anew has none.
        """
        return list(self._owed.values())

    def is_owed(self, half: HalfMessage) -> bool:
        """Whether the op record of a half message is still not in the log."""
        return half.queue_offset in self._owed

    def stored(self, half: HalfMessage) -> None:
        """Note that a half message was stored, for the first time or anew."""
        before = self._pending.pop(half.transaction_id, None)
        self._count_of[half.topic] += 1
        if before is not None:
            self._less(before.topic)
            del self._ids[before.queue_offset]
            self._owed[before.queue_offset] = before, None
            half = replace(
                half,
                parked=half.parked or before.parked,
                store_timestamp_ms=before.store_timestamp_ms,
            )
        self._pending[half.transaction_id] = half
        self._ids[half.queue_offset] = half.transaction_id
        self.change_count += 1

    def decided(self, decision: Decision) -> None:
        """Note that a transaction ended; its op record is owed."""
        half = self._pending.pop(decision.transaction_id)
        self._less(half.topic)
        del self._ids[half.queue_offset]
        self._owed[half.queue_offset] = half, decision
        self._remember(decision)

    def roll_back_orphan(self, half: HalfMessage) -> None:
        """Roll back a half message whose topic was deleted since; its op record is owed."""
        _log.warning(
            "half_message_rolled_back",
            reason="its topic was deleted",
            transaction_id=half.transaction_id,
            topic=half.topic,
        )
        place = half.commit_log_offset
        self.decided(Decision(half.transaction_id, half.topic, Outcome.ROLLBACK, place))

    def settled(self, half_queue_offset: int) -> None:
        """Note that the log has the op record of a half message."""
        self._owed.pop(half_queue_offset, None)
        self.change_count += 1

    def parked(self, transaction_id: str) -> None:
        """Note that a half message was parked."""
        self._pending[transaction_id] = replace(self._pending[transaction_id], parked=True)
        self.change_count += 1

    def _less(self, topic: str) -> None:
        self._count_of[topic] -= 1
        if not self._count_of[topic]:
            del self._count_of[topic]

    def forget_before(self, commit_log_offset: int) -> None:
        """Forget half messages whose records are deleted."""
        # In the order of the log: one that is stored anew goes to the end.
        pending = self._pending.values()
        self._forget(takewhile(lambda half: half.commit_log_offset < commit_log_offset, pending))

    def _forget(self, found: Iterable[HalfMessage]) -> None:
        lost = list(found)
        for half in lost:
            del self._pending[half.transaction_id]
            self._less(half.topic)
            del self._ids[half.queue_offset]
            _log.error(
                "half_message_lost",
                transaction_id=half.transaction_id,
                topic=half.topic,
                commit_log_offset=half.commit_log_offset,
            )
        self.change_count += len(lost)

    # The state over the log.

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget half messages behind the end of their queue; no op record may name them."""
        end = end_of(QueueKey(HALF_TOPIC, SYSTEM_QUEUE_ID))
        self._forget(half for half in self._pending.values() if half.queue_offset >= end)
        self._owed = {offset: owed for offset, owed in self._owed.items() if offset < end}

    def replay(self, stretch: Stretch) -> None:
        """Note the transactions in a stretch of the log."""
        wanted = is_committed(stretch)
        for topic in (HALF_TOPIC, OP_TOPIC, CHECKS_EXHAUSTED_TOPIC):
            wanted |= is_of_topic(stretch, topic)
        for fields in records_where(stretch, wanted):
            self.restore(fields)

    def restore(self, fields: RecordFields) -> None:
        """Note the transaction in one record; records are passed in the order of the log."""
        if fields.topic == HALF_TOPIC:
            half = half_message_of(fields)
            if half is not None:
                self.stored(half)
        elif fields.topic == OP_TOPIC:
            self._restore_op(fields)
        elif fields.topic == CHECKS_EXHAUSTED_TOPIC:
            if fields.unique_id in self._pending:
                self.parked(fields.unique_id)
        else:
            self._restore_commit(fields)

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Do nothing: half messages of deleted topics are rolled back when they are found."""

    def clear(self) -> None:
        """Forget everything."""
        self._pending.clear()
        self._count_of.clear()
        self._ids.clear()
        self._decisions.clear()
        self._owed.clear()

    def copied(self) -> Document:
        """Copy everything."""
        pending = list(self._pending.values())
        decisions = list(self._decisions.values())
        owed = self.owed()

        def contents() -> dict[str, Any]:
            return {
                "pending": list(map(_row_of_half, pending)),
                "decisions": list(map(_row_of_decision, decisions)),
                "owed": [
                    (_row_of_half(half), None if decision is None else _row_of_decision(decision))
                    for half, decision in owed
                ],
            }

        return contents

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        pending = list(map(_half_of_row, contents["pending"]))
        decisions = list(map(_decision_of_row, contents["decisions"]))
        owed = [
            (_half_of_row(half), None if decision is None else _decision_of_row(decision))
            for half, decision in contents["owed"]
        ]
        self._pending = {half.transaction_id: half for half in pending}
        self._count_of = Counter(half.topic for half in self._pending.values())
        self._ids = {half.queue_offset: half.transaction_id for half in pending}
        self._decisions = OrderedDict((each.transaction_id, each) for each in decisions)
        self._owed = {half.queue_offset: (half, decision) for half, decision in owed}

    def _restore_commit(self, fields: RecordFields) -> None:
        transaction_id = committed_transaction_id(fields)
        half = self._pending.get(transaction_id)
        if half is not None and half.topic == fields.topic:
            place = fields.commit_log_offset
            self.decided(Decision(transaction_id, half.topic, Outcome.COMMIT, place))

    def _restore_op(self, fields: RecordFields) -> None:
        for queue_offset in settled_queue_offsets(fields):
            transaction_id = self._ids.get(queue_offset)
            if transaction_id is not None:
                half = self._pending[transaction_id]
                # RocketMQ's op records have no outcome: a transaction that is not committed is
                # rolled back.
                decision = decision_of_op(fields)
                if decision is None or decision.transaction_id != transaction_id:
                    place = fields.commit_log_offset
                    decision = Decision(transaction_id, half.topic, Outcome.ROLLBACK, place)
                self.decided(decision)
            self.settled(queue_offset)

    def _remember(self, decision: Decision) -> None:
        self._decisions[decision.transaction_id] = decision
        self._decisions.move_to_end(decision.transaction_id)
        if len(self._decisions) > self._decision_count_max:
            self._decisions.popitem(last=False)
        self.change_count += 1


def _half_of_row(row: list[Any]) -> HalfMessage:
    half = HalfMessage(*row)
    return replace(half, keys=tuple(half.keys))


def _decision_of_row(row: list[Any]) -> Decision:
    decision = Decision(*row)
    return replace(decision, outcome=Outcome(decision.outcome))
