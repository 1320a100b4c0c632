r"""Appends of producers: tables of records and plain messages end here.

A table is appended as a whole in one turn of the loop; then the call waits once for the broker's
promise. If one row of it is refused, was stored before, or asks for more than to be appended, each
row goes alone, so that none affects another::

    table --> all rows at once -----------------------------------> one outcome
                 \_ a fault, a repeat, a delay, a demand --------> row by row
                 \_ half messages --------------------------------> side by side, but bad ones alone

A repeated row of an idempotent producer is not stored again: the call waits for the same promise,
and returns the first result. No step here looks at a single message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, Protocol

from ariane_broker.append.append_spans import AppendSpans
from ariane_broker.append.repeated_row import first_result, is_stored_as
from ariane_broker.append.row_check import ROWS_MAX, check_numbers, check_place, check_sizes
from ariane_broker.append.rows import NO_TERMS, Outcome, Rows, RowTerms, Taken
from ariane_broker.append.stored_quota import StoredQuota
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.delay.parking import Parked, Parking
from ariane_broker.errors.public_errors import (
    block_corrupted,
    broker_draining,
    message_illegal,
    store_poisoned,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.derived.producer_sequences import NextBatches, ProducerSequences
from ariane_broker.log.promise import AcknowledgedLevel, Demand, Promise
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.message_types import check_types_of_rows
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

_NEW_AT_ONCE: Final = 64
"""Rows of new topics that are appended in one turn of the loop: each creates files."""

LONG_ROW: Final = 384
"""From this many records on average, rows are long, and are appended one by one. The records of a
row have one size, except the first, and their sums come along; the broker can use that for a row
alone. Appending rows of 1,000 records together takes up to 1.7 times the processor time, but rows
of 250 half to two thirds of it: a row alone has a price of its own."""


class HalfStore(Protocol):
    """Stores half messages."""

    def store_rows(
        self, rows: Rows, born_host: Host
    ) -> Sequence[tuple[Appended, bool] | Exception]:
        """Store half messages, each a row of one valid record.

        Returns:
            Where neighbouring ones are stored and whether they had been stored before, or why one
            is not.

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
        topics: TopicsForSend,
        sequences: ProducerSequences,
        parking: Parking,
        *,
        body_bytes_max: int,
        service_error: Callable[[Exception], ServiceError],
    ) -> None:
        self._log = log
        self._topics = topics
        self._sequences = sequences
        self._parking = parking
        self._body_bytes_max = body_bytes_max
        self._service_error = service_error
        self.draining = False
        """Whether the broker takes no more messages."""
        self.spans: AppendSpans | None = None
        """Makes a span of each call whose messages were sent in spans; None without tracing."""
        self.halves: HalfStore | None = None
        """Stores half messages."""
        self.stored: StoredQuota | None = None
        """Refuses messages to topics that have as much as they may."""

    @property
    def traces(self) -> bool:
        """Whether the spans of messages are used."""
        return self.spans is not None

    async def append(
        self, rows: Rows, born_host: Host, trace_parents: Sequence[str] = ()
    ) -> Sequence[Outcome]:
        """Append rows in order, each as a whole or not at all.

        Args:
            rows: 1 to ``ROWS_MAX``.
            born_host: The producer's address as the broker sees it.
            trace_parents: Spans in which the messages were sent.

        Returns:
            Their outcomes, in order; one of them may be of several rows.

        Raises:
            ServiceError: Nothing was stored: SERVICE_DRAINING, STORE_POISONED or FIELD_INVALID.
        """
        taken = self.take(rows, born_host, trace_parents)
        return taken if isinstance(taken, list) else await taken

    def take(self, rows: Rows, born_host: Host, trace_parents: Sequence[str] = ()) -> Taken:
        """Append at once what needs no wait; like ``append``, but not a coroutine.

        Returns:
            The outcomes, or an awaitable of them.

        Raises:
            ServiceError: As ``append``.
        """
        if self.spans is None or not trace_parents:
            return self._take(rows, born_host)
        return self.spans.around(lambda: self._take(rows, born_host), rows, trace_parents)

    def _take(self, rows: Rows, born_host: Host) -> Taken:
        if self.draining:
            raise broker_draining()
        if not 1 <= len(rows.topics) <= ROWS_MAX:
            raise field_invalid("table.topics", f"must be 1 to {ROWS_MAX}", len(rows.topics))
        check_numbers(rows)
        is_special = rows.terms is not None and rows.have_demands
        if is_special or not all(map(self._topics.find, rows.topics)):
            return self._take_each(rows, born_host)
        outcomes: list[Outcome] = []
        self._append(rows, born_host, outcomes)
        promise = self._log.promise
        if promise.waits:
            return _kept(outcomes, promise)
        for outcome in outcomes:
            if outcome.appended is not None:
                outcome.level = promise.level
        return outcomes

    async def _take_each(self, rows: Rows, born_host: Host) -> list[Outcome]:
        """Append rows, some of which need a topic that does not exist yet, or demand more."""
        each = await self._create_topics(rows)
        outcomes: list[Outcome] = []
        for begin in range(0, len(each), _NEW_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            for row in each[begin : begin + _NEW_AT_ONCE]:
                self._append(row, born_host, outcomes)
        of_demands: dict[Demand | None, list[Outcome]] = {}
        for row, outcome in zip(each, outcomes, strict=True):
            of_demands.setdefault(row.terms_of(0).demand, []).append(outcome)
        promises = self._log.promises
        await asyncio.gather(
            *(
                _kept(stored, promises.own if demand is None else promises.demanded(demand))
                for demand, stored in of_demands.items()
            )
        )
        return outcomes

    async def _create_topics(self, rows: Rows) -> Sequence[Rows]:
        """Create missing topics, all in one turn; returns each row alone, some perhaps refused."""
        find, each = self._topics.find, rows.each()
        missing = [place for place, row in enumerate(each) if find(row.topics[0]) is None]
        made = await asyncio.gather(*(self._create_topic(each[place]) for place in missing))
        for place, row in zip(missing, made, strict=True):
            each[place] = row
        return each

    async def _create_topic(self, row: Rows) -> Rows:
        """Create the topic of a row that fits into it; other rows are refused later."""
        if row.table is None:
            return row
        try:
            await self._topics.find_or_create(row.topics[0], row.queue_ids[0], row.table)
        except ServiceError as error:
            if error.row.name in _CREATION_REASONS:
                # "Not found" would make the producer look for the topic at another broker.
                return Rows.refused(row.topics, error)
        except BlockRejected:
            pass
        return row

    def _append(self, rows: Rows, born_host: Host, outcomes: list[Outcome]) -> None:
        """Append rows at once, or else by parts; add their outcomes to the earlier ones."""
        try:
            if rows.terms is not None and rows.are_halves:
                outcomes += self._append_halves(rows, born_host)
            else:
                outcomes.append(self._append_at_once(rows, born_host))
        except StorePoisoned:
            if all(outcome.appended is None for outcome in outcomes):
                raise store_poisoned() from None
            outcomes += [Outcome(error=store_poisoned()) for _ in rows.topics]
        except (_RowByRow, ServiceError, StorageError, OSError) as error:
            if len(rows) == 1:
                outcomes.append(Outcome(error=self._service_error(error)))
                return
            # The fault of one is no matter of the others: sound half messages that are neighbours
            # are stored together, and all other rows one by one.
            for is_sound, neighbours in groupby(rows.each(), self._is_sound_half):
                alone = list(neighbours)
                are_joined = is_sound and 1 < len(alone) < len(rows)
                for part in [Rows.joined(alone)] if are_joined else alone:
                    self._append(part, born_host, outcomes)

    def _append_at_once(self, rows: Rows, born_host: Host) -> Outcome:
        """Append a row, if it is not stored already, or several rows, all or none.

        Raises:
            _RowByRow: One of several is unusual, or they are long.
            ServiceError: One is refused.
            StorageError: One is refused, or all are.
        """
        terms = NO_TERMS if rows.terms is None else rows.terms[0]
        table = _table_of(rows.table, terms)
        is_alone = len(rows.topics) == 1
        if not is_alone and (rows.terms is not None or table.count >= LONG_ROW * len(rows)):
            raise _RowByRow
        queues, parked = rows.queues(), None
        if terms.delay is not None:
            _check_sequence(table, rows.sequences[0])
            parked = self._parking.park(table, queues[0], terms.delay, rows.sequences[0])
        # First of all: what is stored stays stored, even if its topic has changed.
        streams = self._sequences.find_next(queues, rows.sequences)
        if streams is not None:
            return self._append_checked(rows, table, queues, streams, born_host, parked=parked)
        if not is_alone:
            raise _RowByRow
        return self._repeated(rows, table, queues[0], parked)

    def _append_checked(
        self,
        rows: Rows,
        table: RecordTable,
        queues: Sequence[QueueKey],
        streams: NextBatches,
        born_host: Host,
        *,
        parked: Parked | None,
    ) -> Outcome:
        """Append rows that continue their streams, if their queues take them."""
        configs = list(map(self._topics.find, rows.topics))
        are_typed = False
        for (topic, queue_id), config in zip(queues, configs, strict=True):
            if config is None or parked is not None or queue_id >= config.plain_queue_count:
                check_place(
                    topic,
                    queue_id,
                    config,
                    is_delayed=parked is not None,
                    is_plain=rows.is_plain,
                )
            are_typed |= config is not None and config.record_type is not None
        check_sizes(table, self._body_bytes_max)
        if are_typed:
            check_types_of_rows(table, configs)
        is_charged = self._check_quotas(rows)
        if rows.terms is not None and rows.terms[0].demand is not None:
            self._log.promises.check(rows.terms[0].demand)
        if parked is not None:
            appended = self._log.append_rows(parked.block, [parked.queue], born_host, streams)
        else:
            appended = self._log.append_rows(table, queues, born_host, streams, rows.sequences)
        if is_charged:
            charge_stored(rows.topics, appended.edges)
        return _outcome(appended, table)

    def _check_quotas(self, rows: Rows) -> bool:
        """Refuse rows of topics that have used up a quota; return whether topics are charged."""
        is_charged = charges_topics()
        if is_charged:
            check_topics(rows.topics)
        if self.stored is not None:
            self.stored.check(rows.topics)
        return is_charged

    def _repeated(
        self, row: Rows, table: RecordTable, queue: QueueKey, parked: Parked | None
    ) -> Outcome:
        """The first result of a row that is stored already.

        Raises:
            ServiceError: It is not, and does not continue its stream either.
        """
        (sequence,) = row.sequences
        if sequence is None:
            raise AssertionError("a row in no stream is a repeat of nothing")
        _check_sequence(table, sequence)
        stored_as, home = (table, queue) if parked is None else parked
        store, is_plain = self._log.store, row.is_plain
        is_same = partial(is_stored_as, store, stored_as, home.queue_id, is_plain=is_plain)
        try:
            stored = self._sequences.duplicate_of(queue, sequence, table.count, is_same)
        except ServiceError:
            config = self._topics.find(queue.topic)
            if config is None:
                # The streams were deleted with the topic: report the topic, not the sequence
                # numbers.
                check_place(*queue, config, is_delayed=parked is not None)
            raise
        if stored is None:
            raise AssertionError("a row that continues its stream is no repeat")
        return _outcome(first_result(stored, stored_as), table, duplicate=True)

    def _append_halves(self, rows: Rows, born_host: Host) -> list[Outcome]:
        """Append half messages to the system topic where they wait for their outcomes.

        Raises:
            ServiceError: One of them cannot be a half message.
            StorageError: Likewise.
        """
        if self.halves is None:
            raise RuntimeError("a broker without a room for transactions")
        is_charged = self._check_halves(rows)
        outcomes: list[Outcome] = []
        begin = 0
        for found in self.halves.store_rows(rows, born_host):
            if isinstance(found, Exception):
                outcomes.append(Outcome(error=self._service_error(found)))
                begin += 1
                continue
            appended, is_duplicate = found
            end = begin + len(appended)
            if is_charged and not is_duplicate:
                charge_stored(rows.topics[begin:end], appended.edges)
            outcomes.append(Outcome(appended, duplicate=is_duplicate, resized=True))
            begin = end
        return outcomes

    def _is_sound_half(self, row: Rows) -> bool:
        """Whether a row can be a half message; if not, it is told why when it goes alone."""
        try:
            if row.are_halves:
                self._check_halves(row)
        except (ServiceError, StorageError):
            return False
        return row.are_halves

    def _check_halves(self, rows: Rows) -> bool:
        """Refuse rows of which one cannot be a half message; return whether topics are charged.

        Raises:
            ServiceError: Why.
            StorageError: Likewise.
        """
        table = _table_of(rows.table, rows.terms_of(0))
        if any(terms.delay is not None for terms in rows.terms or ()):
            raise message_illegal(0, "a half message cannot be delayed")
        if max(table.counts) > 1 or any(rows.sequences):
            raise message_illegal(0, "a half message is one record in no stream")
        check_sizes(table, self._body_bytes_max)
        self._topics.check_table(table)
        return self._check_quotas(rows)


def _table_of(table: RecordTable | None, terms: RowTerms) -> RecordTable:
    """The records of a row.

    Raises:
        ServiceError: Why it has none.
    """
    if table is None or terms.refusal is not None:
        raise terms.refusal or block_corrupted(-1, "its columns make no sense")
    return table


def _check_sequence(table: RecordTable, sequence: ProducerSequence | None) -> None:
    """Refuse a row whose first record says another sequence than the row."""
    if not says_sequence(table.records, sequence, table.count):
        raise block_corrupted(0, "its producer sequence is not that of the batch")


def _outcome(appended: Appended, came: RecordTable, *, duplicate: bool = False) -> Outcome:
    size_bytes = appended.edges[-1] - appended.edges[0]
    return Outcome(appended, duplicate=duplicate, resized=size_bytes != came.size_bytes)


async def _kept(outcomes: list[Outcome], promise: Promise) -> list[Outcome]:
    """Wait once, until a promise holds for the log up to the last of some outcomes; return them."""
    ends = [outcome.appended.edges[-1] for outcome in outcomes if outcome.appended is not None]
    if ends:
        level, failure = await promise.then(max(ends), _level_and_failure)
        for outcome in outcomes:
            if outcome.appended is not None:
                outcome.level, outcome.error = level, failure
    return outcomes


def _level_and_failure(
    level: AcknowledgedLevel, failure: ServiceError | None
) -> tuple[AcknowledgedLevel, ServiceError | None]:
    return level, failure
