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
from ariane_broker.append.outcome import Outcome, PromisedOutcomes, Taken
from ariane_broker.append.repeated_row import first_result, is_stored_as
from ariane_broker.append.row_check import ROWS_MAX, check_numbers, check_place, check_sizes
from ariane_broker.append.rows import Rows
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
from ariane_servicekit.security.gate.charging import charge_stored, check_topics
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
        return taken if isinstance(taken, Sequence) else await taken

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
        if not 1 <= len(rows) <= ROWS_MAX:
            raise field_invalid("table.topics", f"must be 1 to {ROWS_MAX}", len(rows))
        check_numbers(rows)
        if rows.have_demands or None in map(self._topics.find, rows.topics):
            return self._take_each(rows, born_host)
        outcomes: list[Outcome] = []
        self._append_rows(rows, born_host, outcomes)
        return _promised(outcomes, self._log.promise)

    async def _take_each(self, rows: Rows, born_host: Host) -> Sequence[Outcome]:
        """Append rows, some of which need a topic that does not exist yet, or demand more."""
        each = await self._create_topics(rows)
        outcomes: list[Outcome] = []
        for begin in range(0, len(each), _NEW_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            for row in each[begin : begin + _NEW_AT_ONCE]:
                self._append_rows(row, born_host, outcomes)
        places: dict[Demand | None, list[int]] = {}
        for place, row in enumerate(each):
            places.setdefault(row.terms_of(0).demand, []).append(place)

        async def acknowledge(demand: Demand | None, places: Sequence[int]) -> None:
            stored = [outcomes[place] for place in places]
            promise = self._log.promise if demand is None else self._log.promises.demanded(demand)
            taken = _promised(stored, promise)
            found = taken if isinstance(taken, Sequence) else await taken
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome

        await asyncio.gather(*(acknowledge(*each) for each in places.items()))
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

    def _append_rows(self, rows: Rows, born_host: Host, outcomes: list[Outcome]) -> None:
        """Append rows at once, or else one by one; add their outcomes to the earlier ones."""
        if len(rows) == 1 or rows.are_halves:
            self._append_part(rows, born_host, outcomes)
            return
        try:
            outcomes.append(self._append_at_once(rows, born_host))
        except (_RowByRow, ServiceError, StorageError, OSError):
            # One by one, the first gets what concerns all, as an error of the disk.
            # Neighbouring half messages are stored together.
            for is_half, neighbours in groupby(rows.each(), _is_half):
                for part in [Rows.joined(list(neighbours))] if is_half else neighbours:
                    self._append_part(part, born_host, outcomes)

    def _append_part(self, part: Rows, born_host: Host, outcomes: list[Outcome]) -> None:
        """Append a row alone, or half messages; add their outcomes to the earlier ones."""
        try:
            if _is_half(part):
                outcomes += self._append_halves(part, born_host)
            else:
                outcomes.append(self._append_row(part, born_host))
        except StorePoisoned:
            if all(outcome.appended is None for outcome in outcomes):
                raise store_poisoned() from None
            outcomes += [Outcome(error=store_poisoned())] * len(part)
        except (ServiceError, StorageError, OSError) as error:
            if len(part) == 1:
                outcomes.append(Outcome(error=self._service_error(error)))
                return
            # The fault of one is no matter of the others: sound neighbours are stored together.
            for is_sound, neighbours in groupby(part.each(), self._is_sound_half):
                alone = list(neighbours)
                are_joined = is_sound and 1 < len(alone) < len(part)
                for each in [Rows.joined(alone)] if are_joined else alone:
                    self._append_part(each, born_host, outcomes)

    def _append_at_once(self, rows: Rows, born_host: Host) -> Outcome:
        """Append several rows, all or none.

        Raises:
            _RowByRow: One is unusual, or they are long.
            ServiceError: One is refused.
            StorageError: One is refused, or all are.
        """
        table = rows.table
        if table is None or rows.terms is not None or table.count >= LONG_ROW * len(rows):
            raise _RowByRow
        queues = rows.queues()
        streams = self._sequences.find_next(queues, rows.sequences)
        if streams is None:
            raise _RowByRow
        return self._append_checked(rows, table, queues, streams, born_host)

    def _append_row(self, row: Rows, born_host: Host) -> Outcome:
        """Append a row, if it is not stored already.

        Raises:
            ServiceError: It is refused.
            StorageError: Likewise.
        """
        table, terms, (sequence,) = _table_of(row), row.terms_of(0), row.sequences
        queues = row.queues()
        parked = None
        if terms.delay is not None:
            _check_sequence(table, sequence)
            parked = self._parking.park(table, queues[0], terms.delay, sequence)
        # First of all: what is stored stays stored, even if its topic has changed.
        streams = self._sequences.find_next(queues, row.sequences)
        if streams is None and sequence is not None:
            return self._repeated(row, table, parked, sequence)
        if streams is None:
            raise AssertionError("a row in no stream is a repeat of nothing")
        return self._append_checked(row, table, queues, streams, born_host, parked=parked)

    def _append_checked(
        self,
        rows: Rows,
        table: RecordTable,
        queues: Sequence[QueueKey],
        streams: NextBatches,
        born_host: Host,
        *,
        parked: Parked | None = None,
    ) -> Outcome:
        """Append rows that continue their streams, if their queues take them."""
        configs = list(map(self._topics.find, rows.topics))
        for (topic, queue_id), config in zip(queues, configs, strict=True):
            if config is None or parked is not None or queue_id >= config.plain_queue_count:
                check_place(
                    topic,
                    queue_id,
                    config,
                    is_delayed=parked is not None,
                    is_plain=rows.is_plain,
                )
        check_sizes(table, self._body_bytes_max)
        check_types_of_rows(table, configs)
        self._check_quotas(rows)
        if rows.terms is not None and rows.terms[0].demand is not None:
            self._log.promises.check(rows.terms[0].demand)
        if parked is not None:
            appended = self._log.append_rows(parked.block, [parked.queue], born_host, streams)
        else:
            appended = self._log.append_rows(table, queues, born_host, streams, rows.sequences)
        charge_stored(rows.topics, appended.edges)
        return _outcome(appended, table)

    def _check_quotas(self, rows: Rows) -> None:
        """Refuse rows of topics that have used up a quota."""
        check_topics(rows.topics)
        if self.stored is not None:
            self.stored.check(rows.topics)

    def _repeated(
        self,
        row: Rows,
        table: RecordTable,
        parked: Parked | None,
        sequence: ProducerSequence,
    ) -> Outcome:
        """The first result of a row that is stored already.

        Raises:
            ServiceError: It is not, and does not continue its stream either.
        """
        _check_sequence(table, sequence)
        (queue,) = row.queues()
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
        self._check_halves(rows)
        outcomes: list[Outcome] = []
        begin = 0
        for found in self.halves.store_rows(rows, born_host):
            if isinstance(found, Exception):
                outcomes.append(Outcome(error=self._service_error(found)))
                begin += 1
                continue
            appended, is_duplicate = found
            end = begin + len(appended)
            if not is_duplicate:
                charge_stored(rows.topics[begin:end], appended.edges)
            outcomes.append(Outcome(appended, duplicate=is_duplicate, resized=True))
            begin = end
        return outcomes

    def _is_sound_half(self, row: Rows) -> bool:
        """Whether a row can be a half message; if not, it is told why when it goes alone."""
        try:
            self._check_halves(row)
        except (ServiceError, StorageError):
            return False
        return True

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
        self._topics.check_table(table)
        self._check_quotas(rows)


def _is_half(row: Rows) -> bool:
    return row.terms_of(0).half_group is not None


def _table_of(row: Rows) -> RecordTable:
    """The records of a row.

    Raises:
        ServiceError: Why it has none.
    """
    refusal = row.terms_of(0).refusal
    if row.table is None or refusal is not None:
        raise refusal or block_corrupted(-1, "its columns make no sense")
    return row.table


def _check_sequence(table: RecordTable, sequence: ProducerSequence | None) -> None:
    """Refuse a row whose first record says another sequence than the row."""
    if not says_sequence(table.records, sequence, table.count):
        raise block_corrupted(0, "its producer sequence is not that of the batch")


def _outcome(appended: Appended, came: RecordTable, *, duplicate: bool = False) -> Outcome:
    size_bytes = appended.next_commit_log_offset - appended.first_commit_log_offset
    return Outcome(appended, duplicate=duplicate, resized=size_bytes != came.size_bytes)


def _promised(outcomes: list[Outcome], promise: Promise) -> Taken:
    """The outcomes, once a promise holds for the log up to the last of them."""
    ends = [o.appended.next_commit_log_offset for o in outcomes if o.appended is not None]
    if not ends:
        return outcomes
    if not promise.waits:
        return _acknowledged(outcomes, promise.level, None)
    return PromisedOutcomes(partial(_acknowledged, outcomes), promise, max(ends))


def _acknowledged(
    outcomes: list[Outcome], level: AcknowledgedLevel, failure: ServiceError | None
) -> list[Outcome]:
    """The outcomes, once it is known which level was reached."""
    return [
        Outcome(outcome.appended, failure, level, outcome.duplicate, outcome.resized)
        if outcome.appended is not None
        else outcome
        for outcome in outcomes
    ]
