"""Appends of producers: packed blocks and plain messages end here.

All batches of a call are appended in one turn of the loop, each as a whole or not at all; then the
call waits once for the broker's promise. A repeated batch of an idempotent producer is not stored
again: the call waits for the same promise, and returns the first result. No step here looks at a
single message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, Protocol

from ariane_broker.append.append_spans import AppendSpans
from ariane_broker.append.batch_check import BATCHES_MAX, Batch, block_of, check_place, check_sizes
from ariane_broker.append.batch_outcome import BatchOutcome, TableOutcomes
from ariane_broker.append.promised_outcomes import Acknowledged, PromisedOutcomes, Taken
from ariane_broker.append.repeated_batch import first_result, is_stored_as
from ariane_broker.append.table_append import TableAppend
from ariane_broker.append.table_batches import TableBatches
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.delay.parking import Parking
from ariane_broker.errors.public_errors import broker_draining, message_illegal, store_poisoned
from ariane_broker.log.broker_log import BrokerLog, Sequenced
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.promise import AcknowledgedLevel, Demand
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.message_types import check_message_types
from ariane_record import RecordBlock
from ariane_record.layout import Host
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_storage.errors import BlockRejected, StorageError, StorePoisoned
from ariane_storage.writing.append import Appended

_NEW_AT_ONCE: Final = 64
"""Batches of new topics that are appended in one turn of the loop: each creates files."""

_SEQUENCE_MAX: Final = 1 << 62

_demand_of: Final[Callable[[Batch], Demand | None]] = attrgetter("demand")
_as_queue: Final[Callable[[tuple[str, int]], QueueKey]] = partial(tuple.__new__, QueueKey)


class HalfStore(Protocol):
    """Stores half messages."""

    def store_record(self, batch: Batch, born_host: Host) -> tuple[Appended, bool]:
        """Store a half message of one valid record, and say whether it had been stored before.

        Raises:
            ServiceError: Nothing is stored.
            StorageError: Nothing is stored.
        """
        ...


_SAID_OF_CREATION: Final = frozenset({"TOPIC_LIMIT_REACHED", "ACCESS_DENIED"})
"""Reasons why a topic was not created that are told; after others it is told that there is none."""


class AppendRecords:
    """Appends batches, and waits for the broker's promise.

    Attributes:
        draining: Whether the broker takes no more messages.
        spans: Makes a span of each call whose messages were sent in spans; None without tracing.
        halves: Stores half messages.
    """

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
        self._table_append = TableAppend(log, topics, sequences, body_bytes_max=body_bytes_max)
        self.draining = False
        self.spans: AppendSpans | None = None
        self.halves: HalfStore | None = None

    @property
    def traces(self) -> bool:
        """Whether the spans of messages are used."""
        return self.spans is not None

    async def append(
        self,
        batches: Sequence[Batch] | TableBatches,
        born_host: Host,
        trace_parents: Sequence[str] = (),
    ) -> Sequence[BatchOutcome]:
        """Append batches in order, each as a whole or not at all.

        Args:
            batches: 1 to ``BATCHES_MAX``.
            born_host: The producer's address as the broker sees it.
            trace_parents: Spans in which the messages were sent.

        Returns:
            One outcome for each batch.

        Raises:
            ServiceError: Nothing was stored: SERVICE_DRAINING, STORE_POISONED or FIELD_INVALID.
        """
        taken = self.take(batches, born_host, trace_parents)
        return taken if isinstance(taken, Sequence) else await taken

    def take(
        self,
        batches: Sequence[Batch] | TableBatches,
        born_host: Host,
        trace_parents: Sequence[str] = (),
    ) -> Taken:
        """Append at once what needs no wait; like ``append``, but not a coroutine.

        Returns:
            One outcome for each batch, or an awaitable of the outcomes.

        Raises:
            ServiceError: As ``append``.
        """
        if self.spans is None or not trace_parents:
            return self._take(batches, born_host)
        return self.spans.around(lambda: self._take(batches, born_host), batches, trace_parents)

    def _take(self, batches: Sequence[Batch] | TableBatches, born_host: Host) -> Taken:
        if self.draining:
            raise broker_draining()
        if not 1 <= len(batches) <= BATCHES_MAX:
            raise field_invalid("batches", f"must be 1 to {BATCHES_MAX}", len(batches))
        if isinstance(batches, TableBatches):
            taken = self._take_table(batches, born_host)
            if taken is not None:
                return taken
            batches = batches.each()
        for position, batch in enumerate(batches):
            _check_numbers(batch, position)
        find = self._topics.find
        if any(map(_demand_of, batches)):
            return self._take_demanding(batches, born_host)
        if any(find(batch.topic) is None for batch in batches):
            return self._take_new(batches, born_host)
        return self._take_known(batches, born_host)

    async def _take_new(self, batches: Sequence[Batch], born_host: Host) -> Sequence[BatchOutcome]:
        """Append batches, some of which need a topic that does not exist yet."""
        wanted = await self._create_topics(batches)
        outcomes: list[BatchOutcome] = []
        for begin in range(0, len(wanted), _NEW_AT_ONCE):
            self._append_each(wanted[begin : begin + _NEW_AT_ONCE], born_host, outcomes)
            await asyncio.sleep(0)
        taken = self._with_promise(outcomes)
        return taken if isinstance(taken, Sequence) else await taken

    async def _take_demanding(
        self, batches: Sequence[Batch], born_host: Host
    ) -> Sequence[BatchOutcome]:
        """Append batches, some of which must be safer than the broker's own promise."""
        outcomes: list[BatchOutcome] = []
        wanted = await self._create_topics(batches)
        self._append_each(wanted, born_host, outcomes)
        places: dict[Demand | None, list[int]] = {}
        for place, (batch, outcome) in enumerate(zip(wanted, outcomes, strict=True)):
            if outcome.appended is not None:
                places.setdefault(batch.demand, []).append(place)

        async def acknowledge(demand: Demand | None, places: Sequence[int]) -> None:
            log = self._log
            stored = [outcomes[place] for place in places]
            ends = [o.appended.next_commit_log_offset for o in stored if o.appended is not None]
            promise = log.promise if demand is None else log.promises.demanded(demand)
            told = await PromisedOutcomes(partial(_acknowledged, stored), promise, max(ends))
            for place, outcome in zip(places, told, strict=True):
                outcomes[place] = outcome

        await asyncio.gather(*(acknowledge(*each) for each in places.items()))
        return outcomes

    def _take_known(self, batches: Sequence[Batch], born_host: Host) -> Taken:
        outcomes: list[BatchOutcome] = []
        self._append_each(batches, born_host, outcomes)
        return self._with_promise(outcomes)

    def _append_each(
        self, batches: Sequence[Batch], born_host: Host, outcomes: list[BatchOutcome]
    ) -> None:
        """Append batches one by one, and add their outcomes to the earlier ones."""
        for batch in batches:
            try:
                outcomes.append(self._append_one(batch, born_host))
            except StorePoisoned:
                if all(outcome.appended is None for outcome in outcomes):
                    raise store_poisoned() from None
                outcomes.append(BatchOutcome(error=store_poisoned()))
            except (ServiceError, StorageError, OSError) as error:
                outcomes.append(BatchOutcome(error=self._service_error(error)))

    def _with_promise(self, outcomes: list[BatchOutcome]) -> Taken:
        ends = [o.appended.next_commit_log_offset for o in outcomes if o.appended is not None]
        return self._promised(partial(_acknowledged, outcomes), max(ends)) if ends else outcomes

    def _take_table(self, batches: TableBatches, born_host: Host) -> Taken | None:
        """Append all batches at once; None if nothing was appended."""
        table = batches.table
        queues = list(map(_as_queue, zip(table.topics, table.queue_ids, strict=True)))
        appended = self._table_append.append(table, queues, born_host)
        if appended is None:
            return None
        return self._promised(partial(TableOutcomes, appended), int(appended.commit_log_edges[-1]))

    def _promised(self, acknowledged: Acknowledged, end: int) -> Taken:
        """The outcomes, once the promise holds for the log before an offset."""
        promise = self._log.promise
        if not promise.waits:
            return acknowledged(promise.level, None)
        return PromisedOutcomes(acknowledged, promise, end)

    async def _create_topics(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Create missing topics, all in one turn; returns the batches, some perhaps refused."""
        find = self._topics.find
        missing = [place for place, batch in enumerate(batches) if find(batch.topic) is None]
        went_on = list(batches)
        made = await asyncio.gather(*(self._create_topic(batches[place]) for place in missing))
        for place, batch in zip(missing, made, strict=True):
            went_on[place] = batch
        return went_on

    async def _create_topic(self, batch: Batch) -> Batch:
        """Create the topic of a batch that fits into it; other batches are refused later."""
        if batch.block is None:
            return batch
        try:
            await self._topics.find_or_create(batch.topic, batch.queue_id, batch.block)
        except ServiceError as error:
            if error.row.name in _SAID_OF_CREATION:
                # "Not found" would make the producer look for the topic at another broker.
                return batch._replace(block=None, error=error)
        except BlockRejected:
            pass
        return batch

    def _append_one(self, batch: Batch, born_host: Host) -> BatchOutcome:
        block = original = block_of(batch)
        if batch.half_of is not None:
            return self._append_half(batch, block, born_host)
        queue = home = QueueKey(batch.topic, batch.queue_id)
        if batch.delay is not None:
            block, home = self._parking.park(block, queue, batch.delay, batch.sequence)
        config = self._topics.find(batch.topic)
        sequenced = None
        if batch.sequence is not None:
            sequenced = Sequenced(queue, batch.sequence)
            # First of all: a stored batch stays stored, even if its topic has changed.
            try:
                is_same = partial(
                    is_stored_as, self._log.store, block, home.queue_id, is_plain=batch.is_plain
                )
                stored = self._sequences.duplicate_of(*sequenced, block.count, is_same)
            except ServiceError:
                if config is None:
                    # The streams were deleted with the topic: report the topic, not the sequence
                    # numbers.
                    check_place(batch, config)
                raise
            if stored is not None:
                return _outcome(first_result(stored, block), original, duplicate=True)
        check_place(batch, config)
        check_sizes(original, self._body_bytes_max)
        if config is not None:
            check_message_types(original, config)
        if batch.demand is not None:
            self._log.promises.check(batch.demand)
        return _outcome(self._log.append(block, home.queue_id, born_host, sequenced), original)

    def _append_half(self, batch: Batch, block: RecordBlock, born_host: Host) -> BatchOutcome:
        """Append a half message to the system topic where it waits for its outcome."""
        if batch.delay is not None:
            raise message_illegal(0, "a half message cannot be delayed")
        if batch.sequence is not None or block.count != 1:
            raise message_illegal(0, "a half message is one record in no stream")
        check_sizes(block, self._body_bytes_max)
        self._topics.check_block(block)
        if self.halves is None:
            raise RuntimeError("a broker without a room for transactions")
        appended, duplicate = self.halves.store_record(batch, born_host)
        return BatchOutcome(appended, duplicate=duplicate, resized=True)


def _outcome(appended: Appended, came: RecordBlock, *, duplicate: bool = False) -> BatchOutcome:
    size_bytes = appended.next_commit_log_offset - appended.first_commit_log_offset
    resized = size_bytes != came.size_bytes
    return BatchOutcome(appended, duplicate=duplicate, resized=resized)


def _acknowledged(
    outcomes: list[BatchOutcome],
    level: AcknowledgedLevel,
    failure: ServiceError | None,
) -> list[BatchOutcome]:
    """The outcomes, once it is known which level was reached."""
    return [
        BatchOutcome(outcome.appended, failure, level, outcome.duplicate, outcome.resized)
        if outcome.appended is not None
        else outcome
        for outcome in outcomes
    ]


def _check_numbers(batch: Batch, position: int) -> None:
    """Refuse a queue id or sequence that is out of range."""
    producer_id, epoch, first_sequence = batch.sequence or (1, 0, 0)
    if (
        batch.queue_id >= 0
        and producer_id > 0
        and epoch >= 0
        and 0 <= first_sequence <= _SEQUENCE_MAX
    ):
        return
    field = f"batches[{position}]"
    if batch.queue_id < 0:
        raise field_invalid(f"{field}.queue_id", "must be 0 or more", batch.queue_id)
    if producer_id < 1:
        raise field_invalid(f"{field}.sequence.producer_id", "must be 1 or more", producer_id)
    if epoch < 0:
        raise field_invalid(f"{field}.sequence.producer_epoch", "must be 0 or more", epoch)
    rule = f"must be 0 to {_SEQUENCE_MAX}"
    raise field_invalid(f"{field}.sequence.first_sequence", rule, first_sequence)
