"""Batch transactions: staged by many tasks at many brokers, committed once, visible all or none.

This broker decides here, as the home of a query::

    prepare   at each other broker with a part: kept from now on until this broker says what happens
    decide    one record here: from now on the batch is committed
    notify    the other brokers (``batch_coordinator``); each makes its own part visible
    publish   the part here, once some other broker knows, if there is any

Without other brokers only two of the four remain. ``batch_parts`` is what the other brokers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import Final
from weakref import WeakValueDictionary

from ariane_broker.errors.transactions import batch_differs, sink_moved
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_coordinator import BatchCoordinator
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.records.batch_names import (
    check_attempts,
    check_batch,
    named_stages,
)
from ariane_broker.spark_batches.records.batch_records import (
    BatchEvent,
    BatchKey,
    Contents,
    NamedAttempt,
    batch_record,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_servicekit.errors import field_invalid

DECISION_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """The outcome of a commit."""

    duplicate: bool
    """Whether the batch had been committed before."""
    record_count: int
    """Its messages."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchCommits:
    """Commits and aborts batches."""

    log: BrokerLog
    table: BatchTable
    publication: BatchPublication
    coordinator: BatchCoordinator
    _: KW_ONLY
    broker_name: str
    """Batches of queries with another home are refused."""
    now_ms: Callable[[], int]
    chance: Random
    """Draws names of decisions."""
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """One commit of a query at a time."""

    async def commit(
        self, batch: BatchKey, attempts: Sequence[NamedAttempt], contents: Contents
    ) -> BatchCommitted:
        """Make the named attempts visible, and drop all others.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND, BATCH_DIFFERS, TOPIC_NOT_FOUND, SINK_MOVED,
                PEER_UNREACHABLE.
            StorageError: It is not committed.
        """
        check_batch(batch)
        check_attempts(attempts)
        count = sum(attempt.record_count for attempt in attempts)
        turn = self.turns.setdefault(batch.query_id, asyncio.Lock())
        async with turn:
            # Batches become visible in the order in which they were committed.
            await self.publication.finish(batch.query_id)
            if self.table.is_committed(batch):
                return await self._standing(batch, contents)
            self._check_home(batch.query_id)
            if contents.record_count != count:
                rule = f"must be {count}: so many the attempts have staged"
                raise field_invalid("record_count", rule, contents.record_count)
            contents = contents._replace(decision_id=self.chance.getrandbits(DECISION_BITS) | 1)
            await self._decide(batch, attempts, contents)
            await self.publication.finish(batch.query_id)
        await self.coordinator.until_visible(batch, contents, self._others_with_parts(attempts))
        await self.log.promised()
        return BatchCommitted(duplicate=False, record_count=count)

    async def abort(self, batch: BatchKey) -> bool:
        """Drop staged records, unless the batch is committed; return whether it is.

        What is prepared here stays until its home says what becomes of it.

        Raises:
            StorageError: Nothing is dropped.
        """
        check_batch(batch)
        if self.table.is_committed(batch):
            return True
        if batch in self.table.staged and not self.is_promised(batch):
            self.drop(batch)
            await self.log.promised()
        return False

    def drop(self, batch: BatchKey) -> None:
        """Drop staged records of a batch that is not committed.

        Raises:
            StorageError: Nothing is dropped.
        """
        record = batch_record(BatchEvent.ABORT, batch, self.now_ms())
        self.log.append_records(BATCH_TOPIC, [record])
        self.table.drop(batch)

    def is_promised(self, batch: BatchKey) -> bool:
        """Whether a home may have committed, or may just be committing, what is staged."""
        return batch in self.table.agreements.prepared or batch in self.coordinator.undecided

    def progress_of(self, query_id: str) -> int | None:
        """The last committed batch of a query; None if there is none."""
        progress = self.table.progress.get(query_id)
        return None if progress is None else progress.batch_id

    async def _decide(
        self, batch: BatchKey, attempts: Sequence[NamedAttempt], contents: Contents
    ) -> None:
        """Prepare the parts elsewhere, and write the record that decides."""
        own = [each for each in attempts if each.broker_name in {"", self.broker_name}]
        named_stages(self.table, batch, own)
        others = await self.coordinator.prepare(batch, attempts, contents.decision_id)
        try:
            # The wait may have changed anything here.
            self._check_home(batch.query_id)
            offsets = [each.commit_log_offset for each in named_stages(self.table, batch, own)]
            appended = self.coordinator.commit(batch, contents, offsets, others)
        finally:
            self.coordinator.undecided.pop(batch, None)
        # From here on the decision is final: it is confirmed before anybody hears of it.
        await self.log.promised(appended.next_commit_log_offset)

    async def _standing(self, batch: BatchKey, contents: Contents) -> BatchCommitted:
        """Answer a repeated commit; a batch without records cannot lose any."""
        before = self.table.contents_of(batch)
        if (contents.record_count or before is not None) and not (
            before is not None and contents.has_rows_of(before)
        ):
            count = None if before is None else before.record_count
            raise batch_differs(*batch, contents.record_count, count)
        await self.log.promised()
        return BatchCommitted(duplicate=True, record_count=contents.record_count)

    def _others_with_parts(self, attempts: Sequence[NamedAttempt]) -> set[str]:
        return {each.broker_name for each in attempts} - {"", self.broker_name}

    def _check_home(self, query_id: str) -> None:
        """Refuse a batch whose home is another broker, which alone decides about it."""
        note = self.table.homes.get(query_id)
        if note is not None and note.home.broker_name != self.broker_name:
            raise sink_moved(query_id, note.home.broker_name, note.home.move_count)
