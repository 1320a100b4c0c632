"""Making committed batches visible, in slices, so that other work does not wait for them.

A record whose delivery time is later than the commit is given to the timer instead of its queue.
The time of the commit decides that, so a broker that continues the publication decides the same.

The published part is derived from the log: after a crash the broker goes on where it stopped. What
this broker has decided for a query with other brokers becomes visible once one of them knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parking import Parking
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_coordinator import BatchCoordinator
from ariane_broker.spark_batches.records.batch_progress import Publication
from ariane_broker.spark_batches.records.batch_records import (
    BatchEvent,
    BatchKey,
    batch_record,
    name_of_stage,
    named_rows,
)
from ariane_broker.spark_batches.records.batch_table import WAITING, BatchTable
from ariane_broker.spark_batches.records.stage_format import StagedBlock, decode_stage
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record import RecordTable
from ariane_record.layout import (
    PRODUCER_PROPERTIES_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    Host,
)
from ariane_servicekit import Clock, Loop, ServicekitError, get_logger
from ariane_storage.errors import BlockRejected, RecordCorrupted, StorageError
from ariane_storage.log.records.fields import Int64s

RETRY_SECONDS: Final = 1.0
"""Delay before a publication is tried again that failed or was interrupted by a stop."""

PARKED_BYTES_MAX: Final = 1 << 20
"""Bytes that are parked at a time, at least one record: some milliseconds of the loop."""

_GROWTH_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - PRODUCER_PROPERTIES_BYTES_MAX
"""The most bytes that the delay adds to a record."""

_log = get_logger(__name__)


class BatchPublication:
    """Publishes committed batches."""

    def __init__(
        self,
        log: BrokerLog,
        table: BatchTable,
        find_topic: Callable[[str], TopicConfig | None],
        parking: Parking,
        coordinator: BatchCoordinator,
        *,
        clock: Clock,
    ) -> None:
        """``clock`` paces turns without a waiting call."""
        self._coordinator = coordinator
        self._log = log
        self._table = table
        self._find_topic = find_topic
        self._parking = parking
        self._clock = clock
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._failures: dict[BatchKey, RecordCorrupted] = {}
        self.loop = Loop("publish-batches", self.turn, interval_s=RETRY_SECONDS, clock=clock)
        """The loop that does it; at once if a call waits, and after a start."""

    async def finish(self, query_id: str) -> None:
        """Wait until all committed batches of a query are visible.

        The publication goes on when the call is cancelled.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED; PEER_UNREACHABLE: no other broker knows of it yet.
            StorageError: Not all are visible yet; the publication is tried again.
        """
        if not self._is_open(query_id):
            return
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(query_id, []).append(finished)
        self.loop.wake()
        await finished

    async def turn(self) -> None:
        """Notify others of all committed batches, and publish them, in order for each query."""
        batches = (*self._table.publications, *self._table.agreements.owed)
        # A silent broker of one query delays no other.
        turns = map(self._turn_of, {batch.query_id for batch in batches})
        ended = await asyncio.gather(*turns, return_exceptions=True)
        for failure in filter(None, ended):
            raise failure
        for query_id in [query_id for query_id in self._waiting if not self._is_open(query_id)]:
            self._settle(query_id, None)

    async def _turn_of(self, query_id: str) -> None:
        try:
            await self._coordinator.notify(query_id)
        except (StorageError, ServicekitError) as error:
            _log.warning("decision_not_known_elsewhere", query_id=query_id, cause=str(error))
            self._settle(query_id, error)
            return
        batches = [batch for batch in self._table.publications if batch.query_id == query_id]
        for batch in sorted(batches):
            owed = self._table.agreements.owed.get(batch)
            if owed is not None and not owed.witnessed:
                return
            damage = self._failures.get(batch)
            if damage is not None:
                # It stays so until the next start: nothing is read again and again.
                self._settle(query_id, damage)
                return
            try:
                await self._publish(self._table.publications[batch])
            except RecordCorrupted as error:
                self._failures[batch] = error
                _log.error(
                    "staged_batch_damaged",
                    query_id=query_id,
                    batch_id=batch.batch_id,
                    cause=str(error),
                )
                self._settle(query_id, error)
                return
            except (StorageError, ServicekitError, OSError) as error:
                _log.warning("publication_failed", query_id=query_id, cause=str(error))
                self._settle(query_id, error)
                return

    def _is_open(self, query_id: str) -> bool:
        """Whether something is committed, and not visible here or known to this broker only."""
        return self._table.agreements.is_unwitnessed(query_id) or any(
            batch.query_id == query_id for batch in self._table.publications
        )

    def failed_batches(self, query_id: str) -> list[BatchKey]:
        """Batches of a query that are committed and cannot become visible, by their ids."""
        return sorted(batch for batch in self._failures if batch.query_id == query_id)

    def failure_of(self, batch: BatchKey) -> str:
        """Why a batch cannot become visible; empty if it can."""
        error = self._failures.get(batch)
        return "" if error is None else str(error)

    def forget(self, batches: Iterable[BatchKey]) -> None:
        """Forget batches that are given up."""
        for batch in batches:
            self._failures.pop(batch, None)

    def _settle(self, query_id: str, error: Exception | None) -> None:
        for finished in self._waiting.pop(query_id, ()):
            if finished.done():
                continue
            if error is None:
                finished.set_result(None)
            else:
                finished.set_exception(error)

    async def _publish(self, publication: Publication) -> None:
        for stage in publication.stages:
            fields = await self._log.message_at(stage)
            staged = decode_stage(fields.body, stage)
            topic = staged.block.topic
            # A topic that was deleted since may have been created again: it is another one.
            if self._find_topic(topic) is None or stage < self._log.store.deleted_end(topic):
                _log.warning(
                    "batch_topic_gone",
                    topic=topic,
                    query_id=publication.batch.query_id,
                    batch_id=publication.batch.batch_id,
                )
                continue
            counts = {queue: n for (of, queue), n in publication.counts.items() if of == stage}
            waiting = counts.pop(WAITING, 0)
            # They are appended in this order, so what is there are the first ones, in whichever
            # queues: the topic may have had fewer then, or more.
            visible = sum(counts.values())
            waits = staged.times_ms > publication.committed_ms
            for wanted in np.unique(staged.queue_ids[~waits]).tolist():
                rows = np.flatnonzero((staged.queue_ids == wanted) & ~waits)
                known = min(visible, len(rows))
                visible -= known
                if known == len(rows):
                    continue
                queue_id = self._standing_queue(topic, wanted)
                block = named_rows(staged.block, rows[known:], stage)
                self._append(block, queue_id, fields.born_host, stage)
                self._table.published(publication.batch, stage, queue_id, block.count)
                # Other tasks run between two appends.
                await asyncio.sleep(0)
            rows = np.flatnonzero(waits)[waiting:]
            for part in _parts(rows, staged.block.sizes):
                self._park(staged, part, stage, fields.born_host)
                self._table.published(publication.batch, stage, WAITING, len(part))
                await asyncio.sleep(0)
        record = batch_record(BatchEvent.DONE, publication.batch, self._clock.now_ms())
        self._log.append_records(BATCH_TOPIC, [record])
        self._table.done(publication.batch)

    def _standing_queue(self, topic: str, queue_id: int) -> int:
        config = self._find_topic(topic)
        return queue_id if config is None else config.standing_queue(queue_id)

    def _park(self, staged: StagedBlock, rows: Int64s, stage: int, born_host: Host) -> None:
        """Give records to the timer, for delivery at their times."""
        parked = self._parking.park_staged(
            named_rows(staged.block, rows, stage),
            staged.queue_ids[rows].astype(np.int64),
            staged.times_ms[rows],
            half_offset=name_of_stage(stage),
        )
        self._append(parked.block, parked.queue.queue_id, born_host, stage)

    def _append(self, block: RecordTable, queue_id: int, born_host: Host, stage: int) -> None:
        """Append records of a stage.

        Raises:
            RecordCorrupted: The store refuses them, and will whenever they are tried.
            StorageError: It takes nothing now.
        """
        try:
            self._log.append(block, queue_id, born_host)
        except BlockRejected as error:
            raise RecordCorrupted(stage, f"what it holds cannot be stored: {error}") from error


def _parts(rows: Int64s, sizes: NDArray[np.int32]) -> Iterator[Int64s]:
    """Divide records into parts that are parked together, in order."""
    ends = np.cumsum(sizes[rows].astype(np.int64) + _GROWTH_BYTES_MAX)
    begin = 0
    while begin < len(rows):
        before = int(ends[begin - 1]) if begin else 0
        end = int(np.searchsorted(ends, before + PARKED_BYTES_MAX, side="right"))
        end = max(end, begin + 1)
        yield rows[begin:end]
        begin = end
