r"""Appends of producers: tables of records and plain messages end here.

A table is appended as a whole in one turn of the loop; then the call waits once for each promise
that its rows were given. If one row is refused, was stored before, or asks for more than to be
appended, each row goes alone, so that none affects another::

    table --> all rows at once -----------------------------------> one outcome
                 \_ a fault, a repeat, a delay, a demand --------> row by row, 64 in a turn
                 \_ half messages --------------------------------> side by side, but bad ones alone

A repeated row of an idempotent producer is not stored again: the call waits for the same promise,
and returns the first result. No step here looks at a single message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import groupby
from typing import Final, Protocol

from ariane_broker.append.append_spans import AppendSpans
from ariane_broker.append.repeated_row import first_result, is_stored_as
from ariane_broker.append.row_check import ROWS_MAX, check_numbers, check_places, check_sizes
from ariane_broker.append.rows import NO_TERMS, Outcome, Rows, RowTerms, Taken
from ariane_broker.append.stored_quota import StoredQuota
from ariane_broker.delay.parking import Parking
from ariane_broker.errors.public_errors import (
    block_corrupted,
    broker_draining,
    message_illegal,
    store_poisoned,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.promise import Demand, Promise
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.message_types import check_types_of_rows
from ariane_broker.topics.topic_changes import TopicChanges
from ariane_record import ProducerSequence, RecordTable
from ariane_record.layout import Host
from ariane_record.single.producer_sequence import says_sequence
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.security.gate.charging import (
    charge_stored,
    charges_topics,
    check_topics,
)
from ariane_storage.errors import BlockRejected, StorageError, StorePoisoned
from ariane_storage.writing.append import Appended

_PARTS_AT_ONCE: Final = 64
"""Parts of a table that are appended in one turn of the loop, where they go one by one: a row costs
as much as a call, and one of a new topic creates files."""

LONG_ROW: Final = 384
"""From this many records on average, rows are long, and are appended one by one. The records of a
row have one size, except the first, and their sums come along; the broker can use that for a row
alone. Appending rows of 1,000 records together takes up to 1.7 times the processor time, but rows
of 250 half to two thirds of it: a row alone has a price of its own."""


class HalfStore(Protocol):
    """Stores half messages."""

    def store_rows(self, rows: Rows, born_host: Host) -> Sequence[Outcome]:
        """Store half messages, each a row of one valid record.

        Returns:
            Their outcomes; of neighbours that are stored together, one.

        Raises:
            StorePoisoned: The disk failed; some may be stored.
        """
        ...


_CREATION_REASONS: Final = frozenset({"TOPIC_LIMIT_REACHED", "QUOTA_EXCEEDED", "ACCESS_DENIED"})
"""Reasons why a topic was not created; for others the row is refused as TOPIC_NOT_FOUND."""


class _RowByRow(Exception):
    """The rows of a table are not appended at once: one of them is unusual, or they are long."""


class AppendRecords:
    """Appends rows, and waits for the broker's promise."""

    def __init__(
        self,
        log: BrokerLog,
        topics: TopicChanges,
        sequences: ProducerSequences,
        parking: Parking,
        *,
        body_bytes_max: int,
        check_table: Callable[[RecordTable], object],
        service_error: Callable[[Exception], ServiceError],
    ) -> None:
        self._log = log
        self._topics = topics
        self._sequences = sequences
        self._parking = parking
        self._body_bytes_max = body_bytes_max
        self.check_table = check_table
        """Raises BlockRejected for a table that could not be appended; writes nothing."""
        self.service_error = service_error
        """Makes errors of the store public."""
        self.draining = False
        """Whether the broker takes no more messages."""
        self.spans: AppendSpans | None = None
        """Makes a span of each call whose messages were sent in spans; None without tracing."""
        self.halves: HalfStore | None = None
        """Stores half messages."""
        self.stored: StoredQuota | None = None
        """Refuses messages to topics that have as much as they may."""

    async def append(self, rows: Rows, born_host: Host) -> Sequence[Outcome]:
        """Append rows in order, each as a whole or not at all.

        Args:
            rows: 1 to ``ROWS_MAX``.
            born_host: The producer's address as the broker sees it.

        Returns:
            Their outcomes, in order; one of them may be of several rows.

        Raises:
            ServiceError: Nothing was stored: SERVICE_DRAINING, STORE_POISONED or FIELD_INVALID.
        """
        taken = self.take(rows, born_host)
        return taken if isinstance(taken, list) else await taken

    def take(self, rows: Rows, born_host: Host) -> Taken:
        """Append at once what needs no wait; like ``append``, but not a coroutine.

        Returns:
            The outcomes, or an awaitable of them.

        Raises:
            ServiceError: As ``append``.
        """
        if self.spans is None or not rows.trace_parents:
            return self._take(rows, born_host)
        return self.spans.around(lambda: self._take(rows, born_host), rows)

    def _take(self, rows: Rows, born_host: Host) -> Taken:
        if self.draining:
            raise broker_draining()
        if not 1 <= len(rows.topics) <= ROWS_MAX:
            raise field_invalid("table.topics", f"must be 1 to {ROWS_MAX}", len(rows.topics))
        check_numbers(rows)
        if not all(map(self._topics.find, rows.topics)):
            return self._take_new(rows, born_host)
        outcomes: list[Outcome] = []
        parts = self._append(rows, born_host, outcomes)
        return self._take_parts(parts, born_host, outcomes) if parts else self._promised(outcomes)

    async def _take_new(self, rows: Rows, born_host: Host) -> list[Outcome]:
        """Create missing topics, all in one turn, and append the rows one by one."""
        each, find = rows.each(), self._topics.find
        new = [row for row in each if find(row.topics[0]) is None]
        await asyncio.gather(*map(self._create_topic, new))
        return await self._take_parts(each, born_host, [])

    async def _take_parts(
        self, parts: Sequence[Rows], born_host: Host, outcomes: list[Outcome]
    ) -> list[Outcome]:
        """Append parts in order, and let others have their turns meanwhile.

        A producer that numbers its messages has one call for each queue on its way, so that none of
        its calls comes between.
        """
        pending, number = deque(parts), 0
        while pending:
            if number and not number % _PARTS_AT_ONCE:
                await asyncio.sleep(0)
            number += 1
            pending.extendleft(reversed(self._append(pending.popleft(), born_host, outcomes)))
        taken = self._promised(outcomes)
        return taken if isinstance(taken, list) else await taken

    async def _create_topic(self, row: Rows) -> None:
        """Create the topic of a row that fits into it; other rows are refused later."""
        if row.table is None:
            return
        check = partial(self.check_table, row.table)
        try:
            await self._topics.create_for_send(row.topics[0], row.queue_ids[0], check)
        except ServiceError as error:
            if error.row.name in _CREATION_REASONS:
                # "Not found" would make the producer look for the topic at another broker.
                row.terms = (RowTerms(refusal=error),)
        except BlockRejected:
            pass

    def _promised(self, outcomes: list[Outcome]) -> Taken:
        """Say of what is stored which level it has reached, or wait for it."""
        promises = self._log.promises
        waits: dict[Demand | None, tuple[Promise, list[Outcome]]] = {}
        for outcome in outcomes:
            if outcome.appended is None:
                continue
            demand = outcome.demand
            promise = promises.own if demand is None else promises.demanded(demand)
            if promise.waits:
                waits.setdefault(demand, (promise, []))[1].append(outcome)
            else:
                outcome.level = promise.level
        return _kept(outcomes, waits.values()) if waits else outcomes

    def _append(self, rows: Rows, born_host: Host, outcomes: list[Outcome]) -> list[Rows]:
        """Append rows at once, and add their outcomes to the earlier ones.

        Returns:
            The parts in which they have to be appended instead, in order; none if all is said.
        """
        try:
            found = self._append_at_once(rows, born_host)
        except StorePoisoned:
            if all(outcome.appended is None for outcome in outcomes):
                raise store_poisoned() from None
            outcomes += [Outcome(error=store_poisoned()) for _ in rows.topics]
        except (_RowByRow, ServiceError, StorageError, OSError) as error:
            if len(rows) > 1:
                return self._parts_of(rows)
            outcomes.append(Outcome(error=self.service_error(error)))
        else:
            if rows.terms is not None:
                for outcome in found:
                    outcome.demand = rows.terms[0].demand
            outcomes += found
        return []

    def _parts_of(self, rows: Rows) -> list[Rows]:
        """The rows one by one, but sound half messages that are neighbours together.

        The fault of one is no matter of the others.
        """
        parts: list[Rows] = []
        for is_sound, neighbours in groupby(rows.each(), self._is_sound_half):
            alone = list(neighbours)
            are_joined = is_sound and 1 < len(alone) < len(rows)
            parts += [Rows.joined(alone)] if are_joined else alone
        return parts

    def _append_at_once(self, rows: Rows, born_host: Host) -> Sequence[Outcome]:
        """Append a row, if it is not stored already, or several rows, all or none.

        Raises:
            _RowByRow: One of several is unusual, or they are long.
            ServiceError: One is refused.
            StorageError: One is refused, or all are.
        """
        table = _table_of(rows)
        is_alone, terms = len(rows.topics) == 1, NO_TERMS
        if rows.terms is not None:
            terms = rows.terms[0]
            if not is_alone and (rows.have_demands or not rows.are_halves):
                raise _RowByRow
            if terms.half_group is not None:
                return self._append_halves(rows, born_host)
        elif not is_alone and table.count >= LONG_ROW * len(rows):
            raise _RowByRow
        queues = rows.queues()
        said: Sequence[ProducerSequence | None] | None = rows.sequences
        stored, homes = table, queues
        if terms.delay is not None:
            (sequence,) = rows.sequences
            _check_sequence(table, sequence)
            stored, home = self._parking.park(table, queues[0], terms.delay, sequence)
            homes, said = [home], None
        # First of all: what is stored stays stored, even if its topic has changed.
        streams = self._sequences.find_next(queues, rows.sequences)
        if streams is None:
            if not is_alone:
                raise _RowByRow
            return [self._repeated(rows, table, stored, homes[0])]
        configs = list(map(self._topics.find, rows.topics))
        check_places(queues, configs, is_delayed=stored is not table, is_plain=rows.is_plain)
        check_sizes(table, self._body_bytes_max)
        check_types_of_rows(table, configs)
        is_charged = self._check_quotas(rows)
        if terms.demand is not None:
            self._log.promises.check(terms.demand)
        appended = self._log.append_rows(stored, homes, born_host, streams, said)
        if is_charged:
            charge_stored(rows.topics, appended.edges)
        return [_outcome(appended, table)]

    def _repeated(
        self, row: Rows, table: RecordTable, stored: RecordTable, home: QueueKey
    ) -> Outcome:
        """The first result of a row that is stored already.

        Args:
            row: The row.
            table: Its records.
            stored: Its records as they are stored: parked if they are delayed.
            home: The queue in which they are.

        Raises:
            ServiceError: It is not, and does not continue its stream either.
        """
        (queue,), (sequence,) = row.queues(), row.sequences
        if sequence is None:
            raise AssertionError("a row in no stream is a repeat of nothing")
        _check_sequence(table, sequence)
        is_same = partial(
            is_stored_as, self._log.store, stored, home.queue_id, is_plain=row.is_plain
        )
        try:
            batch = self._sequences.duplicate_of(queue, sequence, table.count, is_same)
        except ServiceError:
            # The streams were deleted with the topic: report the topic, not the sequence numbers.
            config = self._topics.find(queue.topic)
            if config is None:
                check_places((queue,), (config,))
            raise
        if batch is None:
            raise AssertionError("a row that continues its stream is no repeat")
        return _outcome(first_result(batch, stored), table, duplicate=True)

    def _append_halves(self, rows: Rows, born_host: Host) -> Sequence[Outcome]:
        """Append half messages to the system topic where they wait for their outcomes.

        Raises:
            ServiceError: One of them cannot be a half message.
            StorageError: Likewise.
        """
        if self.halves is None:
            raise RuntimeError("a broker without a room for transactions")
        self._check_halves(rows)
        return self.halves.store_rows(rows, born_host)

    def _is_sound_half(self, row: Rows) -> bool:
        """Whether a row can be a half message; if not, it is told why when it goes alone."""
        is_half = row.terms_of(0).half_group is not None
        try:
            if is_half:
                self._check_halves(row)
        except (ServiceError, StorageError):
            return False
        return is_half

    def _check_halves(self, rows: Rows) -> None:
        """Refuse rows of which one cannot be a half message.

        Raises:
            ServiceError: Why.
            StorageError: Likewise.
        """
        table = _table_of(rows)
        if any(terms.delay is not None for terms in rows.terms or ()):
            raise message_illegal(0, "a half message cannot be delayed")
        if max(table.counts) > 1 or any(rows.sequences):
            raise message_illegal(0, "a half message is one record in no stream")
        check_sizes(table, self._body_bytes_max)
        self.check_table(table)
        self._check_quotas(rows)

    def _check_quotas(self, rows: Rows) -> bool:
        """Refuse rows of topics that have used up a quota; return whether topics are charged."""
        is_charged = charges_topics()
        if is_charged:
            check_topics(rows.topics)
        if self.stored is not None:
            self.stored.check(rows.topics)
        return is_charged


def _table_of(rows: Rows) -> RecordTable:
    """The records of rows.

    Raises:
        ServiceError: Why the first one has none.
    """
    refusal = None if rows.terms is None else rows.terms[0].refusal
    if rows.table is None or refusal is not None:
        raise refusal or block_corrupted(-1, "its columns make no sense")
    return rows.table


def _check_sequence(table: RecordTable, sequence: ProducerSequence | None) -> None:
    """Refuse a row whose first record says another sequence than the row."""
    if not says_sequence(table.records, sequence, table.count):
        raise block_corrupted(0, "its producer sequence is not that of the batch")


def _outcome(appended: Appended, came: RecordTable, *, duplicate: bool = False) -> Outcome:
    size_bytes = appended.edges[-1] - appended.edges[0]
    return Outcome(appended, duplicate=duplicate, resized=size_bytes != came.size_bytes)


async def _kept(
    outcomes: list[Outcome], waits: Collection[tuple[Promise, list[Outcome]]]
) -> list[Outcome]:
    """Wait until promises hold, each once and for the log up to the last of its outcomes."""
    levels = [
        promise.then(
            max(each.appended.edges[-1] for each in stored if each.appended is not None),
            lambda level, failure: (level, failure),
        )
        for promise, stored in waits
    ]
    for level_of, (_, stored) in zip(levels, waits, strict=True):
        level, failure = await level_of
        for outcome in stored:
            outcome.level, outcome.error = level, failure
    return outcomes
