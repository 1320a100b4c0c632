"""Ends of transactions: the first outcome counts, and every later call returns it.

The messages that a request commits are appended as one table: first the messages, a row for each
queue, then their op records. A message is in the log before its op record, and names its half
message. So what a crash leaves of a table are whole messages of committed transactions, whose op
records are written later; the other transactions keep waiting. All of it is appended in one turn of
the loop; then the call waits for the broker's promise. An outcome that is no longer in memory is
found in the log, by its op record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from ariane_broker.errors.public_errors import topic_not_found
from ariane_broker.errors.transactions import (
    transaction_decided,
    transaction_foreign,
    transaction_not_found,
)
from ariane_broker.log.broker_log import SYSTEM_QUEUE_ID, BrokerLog
from ariane_broker.log.cold_reads import QUERIES
from ariane_broker.log.promise import Demand
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.stored_place import StoredPlace
from ariane_broker.transactions.transaction_records import (
    Decision,
    HalfMessage,
    Outcome,
    committed_copy,
    committed_transaction_id,
    decision_of_op,
    is_committed,
    op_record,
    parked_copy,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import RecordFields
from ariane_record.errors import RecordError
from ariane_record.layout import Host
from ariane_record.names import CHECKS_EXHAUSTED_TOPIC, OP_TOPIC
from ariane_record.single.record_copy import RecordCopy, copied_block, copied_rows
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_storage.errors import (
    RecordCorrupted,
    RecordNotFound,
    StorageError,
    StorePoisoned,
)
from ariane_storage.reading.record_finder import KeyQuery

CHECK_COUNT_MAX: Final = 1_000_000


class EndRequest(NamedTuple):
    """A request to end a transaction."""

    topic: str
    """The topic of the message."""
    transaction_id: str
    """The transaction."""
    unique_id: str
    """The unique id of the half message, which is the id of the transaction."""
    outcome: Outcome | None
    """The wanted outcome; None for an illegal one."""
    producer_group: str
    """The caller's group, which must be that of the half message."""
    demand: Demand | None = None
    """The level to reach, where that is more than the broker's own; or None."""


class Ended(NamedTuple):
    """The outcome of ending a transaction."""

    outcome: Outcome
    """The outcome that stands."""
    place: StoredPlace | None
    """Where a commit stored the message; None after a rollback, and if the log has deleted it
    since."""
    duplicate: bool
    """Whether an earlier call had this outcome."""


EndOutcome: TypeAlias = Ended | Exception
"""The outcome of ending a transaction, or the error that left it unknown."""


class _Commit(NamedTuple):
    """A half message that becomes visible."""

    position: int
    half: HalfMessage
    copy: RecordCopy
    queue: QueueKey


@dataclass(slots=True)
class _Ending:
    """The ends that one turn of the loop works on."""

    ended: list[EndOutcome | None]
    """The outcome of each; None if unknown so far."""
    left_bytes: int
    """Bytes of messages that this turn may still append."""
    recalled: Mapping[str, Decision | None]
    """What the log says of transactions that memory does not know."""
    ids: set[str] = field(default_factory=set)
    """The transactions that end in this turn."""
    commits: dict[Host, list[_Commit]] = field(default_factory=dict)
    """Half messages to commit, by the address of their producers."""
    rollbacks: dict[int, HalfMessage] = field(default_factory=dict)
    """Half messages to roll back, by place in the request."""


@dataclass(frozen=True, slots=True, eq=False)
class TransactionEnds:
    """Ends transactions, and parks half messages that no producer ends."""

    log: BrokerLog
    table: TransactionTable
    find_topic: Callable[[str], TopicConfig | None]
    _: KW_ONLY
    recent: RecentHalves
    now_ms: Callable[[], int]
    bytes_max: int
    """Bytes of messages that one turn of the loop may append."""

    def end(
        self,
        requests: Sequence[EndRequest],
        recalled: Mapping[str, Decision | None] = MappingProxyType({}),
    ) -> list[EndOutcome | None]:
        """End transactions, or find out how they ended, without waiting.

        Args:
            requests: The requests, one for each transaction.
            recalled: What the log says of transactions that memory does not know.

        Returns:
            The outcome of each; None for one that must wait, for the disk, for its turn or for a
            look into the log: give these to ``finish``. Errors: TRANSACTION_DECIDED if it ended
            otherwise, TRANSACTION_NOT_FOUND, TOPIC_NOT_FOUND if the topic of a commit is gone,
            TRANSACTION_FOREIGN for another group or unique id, FIELD_INVALID without a legal
            outcome, TOO_FEW_IN_SYNC for its demand, or an error of the store: then it has no
            outcome yet.

        Raises:
            StorePoisoned: The disk failed; some may have ended.
        """
        ending = _Ending([None] * len(requests), self.bytes_max, recalled)
        for position, request in enumerate(requests):
            if request.transaction_id in ending.ids:
                continue  # Its outcome is returned once the end before it is stored.
            try:
                ending.ended[position] = self._begin(ending, position, request)
            except StorePoisoned:
                raise
            except (ServiceError, StorageError, OSError) as error:
                ending.ended[position] = error
        for born_host, commits in ending.commits.items():
            self._commit(born_host, commits, ending)
        if ending.rollbacks:
            self._roll_back(ending)
        return ending.ended

    async def finish(
        self, requests: Sequence[EndRequest], ended: Sequence[EndOutcome | None]
    ) -> list[EndOutcome]:
        """End transactions that had to wait, each as soon as possible.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED; whether any of them is stored is not known.
            StorePoisoned: The disk failed; some may have ended.
        """
        outcomes = dict(enumerate(ended))
        while left := [position for position, outcome in outcomes.items() if outcome is None]:
            await self.log.promised()
            await asyncio.sleep(0)
            asked = [requests[position] for position in left]
            recalled = {
                each.transaction_id: await self._decision(each.transaction_id)
                for each in asked
                if self._must_recall(each)
            }
            later = self.end(asked, recalled)
            outcomes.update(zip(left, later, strict=True))
        return [outcome for outcome in outcomes.values() if outcome is not None]

    async def park(self, transaction_id: str, check_count: int) -> bool:
        """Park a half message; returns whether it was parked before.

        Raises:
            ServiceError: TRANSACTION_DECIDED, TRANSACTION_NOT_FOUND, FLUSH_UNCONFIRMED.
            StorageError: The half message is not parked.
        """
        if not 0 <= check_count <= CHECK_COUNT_MAX:
            raise field_invalid("check_count", f"must be 0 to {CHECK_COUNT_MAX}", check_count)
        half = await self.waiting(transaction_id)
        duplicate = half.parked
        if not duplicate:
            fields = await self.log.message_at(half.commit_log_offset)
            half = await self.waiting(transaction_id)
            duplicate = half.parked
            if not duplicate:
                copy = parked_copy(fields, check_count)
                self.log.append_records(CHECKS_EXHAUSTED_TOPIC, [copy])
                self.table.parked(transaction_id)
        await self.log.promised()
        return duplicate

    async def waiting(self, transaction_id: str) -> HalfMessage:
        """Return a half message without an outcome.

        Raises:
            ServiceError: TRANSACTION_DECIDED with the outcome, TRANSACTION_NOT_FOUND.
        """
        half = self.table.find(transaction_id)
        if half is not None:
            return half
        decision = await self._decision(transaction_id)
        if decision is None:
            raise transaction_not_found(transaction_id)
        raise transaction_decided(transaction_id, decision.outcome)

    def _begin(self, ending: _Ending, position: int, request: EndRequest) -> Ended | None:
        """Sort an end into commits or rollbacks; returns the outcome if it is known already.

        Raises:
            ServiceError: See ``end``.
            StorageError: The half message cannot be read.
        """
        transaction_id = request.transaction_id
        if request.outcome is None:
            raise field_invalid("outcome", "must be commit or rollback")
        if request.unique_id != transaction_id:
            raise transaction_foreign(transaction_id, "unique_id", request.unique_id)
        half = self.table.find(transaction_id)
        if half is None or half.topic != request.topic:
            return self._standing(ending, request, request.outcome)
        if request.producer_group != half.producer_group:
            raise transaction_foreign(transaction_id, "producer_group", request.producer_group)
        if half.commit_log_offset < self.log.store.deleted_end(half.topic):
            self.table.roll_back_orphan(half)
            return self._standing(ending, request, request.outcome)
        if request.demand is not None:
            self.log.promises.check(request.demand)
        if request.outcome is Outcome.ROLLBACK:
            ending.rollbacks[position] = half
            ending.ids.add(transaction_id)
            return None
        if ending.left_bytes < 0 or half.commit_log_offset >= self.log.store.confirmed_offset:
            return None
        config = self.find_topic(half.topic)
        if config is None:
            raise topic_not_found(half.topic)
        copy = self.recent.take(half) or self.log.store.copy_at(half.commit_log_offset)
        ending.left_bytes -= len(copy.body)
        queue = QueueKey(half.topic, config.standing_queue(half.queue_id))
        commit = _Commit(position, half, committed_copy(copy, half), queue)
        ending.commits.setdefault(copy.born_host, []).append(commit)
        ending.ids.add(transaction_id)
        return None

    def _standing(self, ending: _Ending, request: EndRequest, outcome: Outcome) -> Ended | None:
        """The outcome of a transaction that is not pending.

        None while its message is not safe, and until the log was searched for it.

        Raises:
            ServiceError: TRANSACTION_DECIDED, TRANSACTION_NOT_FOUND.
        """
        transaction_id = request.transaction_id
        decision = self.table.decision(transaction_id)
        if decision is None and transaction_id:
            if transaction_id not in ending.recalled:
                return None
            decision = ending.recalled[transaction_id]
        if decision is None or decision.topic != request.topic:
            raise transaction_not_found(transaction_id)
        if decision.outcome is not outcome:
            raise transaction_decided(transaction_id, decision.outcome)
        place, store = decision.commit_log_offset, self.log.store
        if store.confirmed_offset <= place < store.max_offset:
            return None
        message = None
        if outcome is Outcome.COMMIT:
            with suppress(RecordNotFound, RecordCorrupted):
                fields = store.message_at(place)
                message = StoredPlace.of(fields) if fields.topic == request.topic else None
        return Ended(outcome, message, duplicate=True)

    def _commit(self, born_host: Host, commits: Sequence[_Commit], ending: _Ending) -> None:
        """Append messages to their queues, and their op records."""
        now_ms = self.now_ms()
        rows: dict[QueueKey, list[_Commit]] = {}
        for each in commits:
            rows.setdefault(each.queue, []).append(each)
        ops = [op_record(each.half, Outcome.COMMIT, now_ms) for each in chain(*rows.values())]
        copies = [(queue.topic, [each.copy for each in row]) for queue, row in rows.items()]
        queues = *rows, QueueKey(OP_TOPIC, SYSTEM_QUEUE_ID)
        try:
            table = copied_rows([*copies, (OP_TOPIC, ops)])
            appended = self.log.append_rows(table, queues, born_host)
        except StorePoisoned:
            raise
        except (StorageError, RecordError) as error:
            if len(commits) > 1:
                # Appended one by one, only the bad message fails.
                for each in commits:
                    self._commit(born_host, [each], ending)
                return
            ending.ended[commits[0].position] = error
            return
        stamp, starts = appended.store_timestamp_ms, iter(appended.commit_log_offsets.tolist())
        store_host = self.log.store.config.store_host
        for first, row in zip(appended.first_queue_offsets, rows.values(), strict=False):
            for queue_offset, (position, half, copy, queue) in enumerate(row, first):
                commit_log_offset = next(starts)
                self.table.decided(
                    Decision(half.transaction_id, half.topic, Outcome.COMMIT, commit_log_offset)
                )
                self.table.settled(half.queue_offset)
                place = StoredPlace(
                    queue_id=queue.queue_id,
                    queue_offset=queue_offset,
                    commit_log_offset=commit_log_offset,
                    store_timestamp_ms=stamp,
                    born_host=born_host,
                    store_host=store_host,
                    attempts=copy.attempts,
                )
                ending.ended[position] = Ended(Outcome.COMMIT, place, duplicate=False)

    def _roll_back(self, ending: _Ending) -> None:
        """Append the op records of rollbacks, which are the decisions."""
        now_ms = self.now_ms()
        ops = [op_record(half, Outcome.ROLLBACK, now_ms) for half in ending.rollbacks.values()]
        try:
            appended = self.log.append(copied_block(OP_TOPIC, ops))
        except StorePoisoned:
            raise
        except (StorageError, RecordError) as error:
            for position in ending.rollbacks:
                ending.ended[position] = error
            return
        places = appended.commit_log_offsets.tolist()
        for (position, half), place in zip(ending.rollbacks.items(), places, strict=True):
            self.table.decided(Decision(half.transaction_id, half.topic, Outcome.ROLLBACK, place))
            self.table.settled(half.queue_offset)
            ending.ended[position] = Ended(Outcome.ROLLBACK, None, duplicate=False)

    def _must_recall(self, request: EndRequest) -> bool:
        """Whether only the log can tell how a transaction ended."""
        half = self.table.find(request.transaction_id)
        is_pending = half is not None and half.topic == request.topic
        return not is_pending and self.table.decision(request.transaction_id) is None

    async def _decision(self, transaction_id: str) -> Decision | None:
        """Find a decision in memory, or else in the log, in turns: any number may have its key."""
        decision = self.table.decision(transaction_id)
        if decision is not None or not transaction_id:
            return decision
        ops = await self._found(KeyQuery(OP_TOPIC, transaction_id, max_count=1))
        decision = decision_of_op(ops[0]) if ops else None
        if decision is None or decision.outcome is Outcome.ROLLBACK:
            return decision
        for message in await self._found(KeyQuery(decision.topic, transaction_id)):
            if committed_transaction_id(message) == transaction_id and is_committed(message):
                return replace(decision, commit_log_offset=message.commit_log_offset)
        return decision

    async def _found(self, query: KeyQuery) -> list[RecordFields]:
        search = self.log.store.search_by_key(query)
        return await self.log.cold_reads.in_turns(QUERIES, search)
