"""Ends of many transactions: their messages as a block for each queue, their op records as one.

Only what waits for its outcome and raises no question is done here. Whatever is unusual (an outcome
that stands already, a topic that is gone, anything that will be refused) is left to
``TransactionEnds``, which says what it is.

As with a single end, a message is in the log before its op record, and names its half message: what
a crash leaves of a block are whole messages, each of a transaction that is committed, whose op
record is written late; the others wait as they did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.rpc.wire.stored_message import StoredPlace
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.ending import EndWish, queue_for
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    Outcome,
    committed_copy,
    op_block,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record.errors import RecordError
from ariane_record.layout import Host
from ariane_record.single.record_copy import RecordCopy, copied_block
from ariane_storage.errors import StorageError, StorePoisoned


class EndedNow(NamedTuple):
    """What became of a transaction.

    Attributes:
        outcome: How it ended.
        place: Where the message lies that a commit made visible; None after a rollback.
    """

    outcome: Outcome
    place: StoredPlace | None


class _Commit(NamedTuple):
    """A half message that becomes visible."""

    position: int
    half: HalfMessage
    copy: RecordCopy


_Home: TypeAlias = tuple[str, int, Host]
"""What a block has in common: topic, queue, and where the producer was seen."""


class EndsTogether:
    """Ends transactions that nothing speaks against."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        find_topic: Callable[[str], TopicConfig | None],
        *,
        store_host: Callable[[], Host],
        bytes_max: int,
    ) -> None:
        """Take the parts; as ``TransactionEnds`` has them.

        Args:
            log: Where outcomes are written.
            table: The transactions of this broker.
            find_topic: The topic of a name, or None.
            store_host: As it stands in message ids, once the store is open.
            bytes_max: Bytes of all messages that are made visible in one turn of the loop.
        """
        self._log = log
        self._table = table
        self._find_topic = find_topic
        self._store_host = store_host
        self._bytes_max = bytes_max

    def end(self, wishes: Sequence[EndWish], now_ms: int) -> list[EndedNow | None]:
        """End them; nothing is waited for.

        Args:
            wishes: How they shall end.
            now_ms: Milliseconds since the epoch.

        Returns:
            For each what became of it, or None if it has no outcome from here and must be ended by
            itself.

        Raises:
            StorePoisoned: The disk failed; some may have ended.
        """
        ended: list[EndedNow | None] = [None] * len(wishes)
        commits, rollbacks = self._sorted(wishes)
        decided: list[tuple[HalfMessage, Decision]] = []
        for home, each in commits.items():
            decided += self._commit(home, each, ended)
        self._write_ops(decided, rollbacks, ended, now_ms)
        return ended

    def _sorted(
        self, wishes: Sequence[EndWish]
    ) -> tuple[dict[_Home, list[_Commit]], dict[int, HalfMessage]]:
        """What is to become visible, by where; and what never will, by its place in the call."""
        commits: dict[_Home, list[_Commit]] = {}
        rollbacks: dict[int, HalfMessage] = {}
        ids: set[str] = set()
        left_bytes = self._bytes_max
        for position, wish in enumerate(wishes):
            half = self._table.find(wish.transaction_id)
            if (
                half is None
                or wish.outcome is None
                or half.topic != wish.topic
                or wish.producer_group != half.producer_group
                or wish.unique_id != wish.transaction_id
                or wish.transaction_id in ids
            ):
                continue
            if wish.outcome is Outcome.ROLLBACK:
                rollbacks[position] = half
                ids.add(wish.transaction_id)
                continue
            config = self._find_topic(half.topic)
            copy = None if config is None or left_bytes < 0 else self._read(half)
            if config is None or copy is None:
                continue
            left_bytes -= len(copy.body)
            home = (half.topic, queue_for(half, config), copy.born_host)
            commit = _Commit(position, half, committed_copy(copy, half))
            commits.setdefault(home, []).append(commit)
            ids.add(wish.transaction_id)
        return commits, rollbacks

    def _read(self, half: HalfMessage) -> RecordCopy | None:
        """A half message, if it may be handed out and can be read."""
        if half.commit_log_offset >= self._log.store.confirmed_offset:
            return None
        try:
            return self._log.store.copy_at(half.commit_log_offset)
        except StorageError:
            return None

    def _commit(
        self, home: _Home, commits: Sequence[_Commit], ended: list[EndedNow | None]
    ) -> list[tuple[HalfMessage, Decision]]:
        """Append messages to their queue; the decisions that stand by that."""
        topic, queue_id, born_host = home
        try:
            block = copied_block(topic, [each.copy for each in commits])
            appended = self._log.append(block, queue_id, born_host=born_host)
        except StorePoisoned:
            raise
        except (StorageError, RecordError):
            return []
        decided = []
        places = appended.commit_log_offsets.tolist()
        for row, (position, half, copy) in enumerate(commits):
            place = places[row]
            decision = Decision(half.transaction_id, half.topic, Outcome.COMMIT, place)
            self._table.decided(decision)
            decided.append((half, decision))
            stored = StoredPlace(
                queue_id=queue_id,
                queue_offset=appended.first_queue_offset + row,
                commit_log_offset=place,
                store_timestamp_ms=appended.store_timestamp_ms,
                born_host=born_host,
                store_host=self._store_host(),
                attempts=copy.attempts,
            )
            ended[position] = EndedNow(Outcome.COMMIT, stored)
        return decided

    def _write_ops(
        self,
        decided: Sequence[tuple[HalfMessage, Decision]],
        rollbacks: dict[int, HalfMessage],
        ended: list[EndedNow | None],
        now_ms: int,
    ) -> None:
        """Append the op records: for a rollback that is the decision."""
        ops: list[tuple[HalfMessage, Decision | None]] = [*decided]
        ops += [(half, None) for half in rollbacks.values()]
        if not ops:
            return
        try:
            appended = self._log.append(op_block(ops, now_ms))
        except StorePoisoned:
            raise
        except (StorageError, RecordError):
            # Messages stand without them, and they stay owed; rollbacks are asked for singly.
            return
        for half, _ in decided:
            self._table.settled(half.queue_offset)
        places = appended.commit_log_offsets[len(decided) :].tolist()
        for (position, half), place in zip(rollbacks.items(), places, strict=True):
            self._table.decided(Decision(half.transaction_id, half.topic, Outcome.ROLLBACK, place))
            self._table.settled(half.queue_offset)
            ended[position] = EndedNow(Outcome.ROLLBACK, None)
