"""Making committed batches visible, in slices, so that nobody else waits for them.

What is published follows from the log: a process that dies in between goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_broker.topic_table import TopicConfig
from ariane_broker.transactions.batch_records import (
    BATCH_TOPIC,
    BatchEvent,
    batch_record,
    rows_of_queue,
    staged_block,
)
from ariane_broker.transactions.batch_table import BatchTable, Publication
from ariane_broker.transactions.writing import TransactionLog
from ariane_servicekit import Clock, Loop, ServicekitError, get_logger
from ariane_storage.errors import StorageError

RETRY_SECONDS: Final = 1.0
"""How long until a publication is tried again that failed, or that a stop has cut short."""

_log = get_logger(__name__)


class BatchPublication:
    """Publishes what is committed.

    Attributes:
        loop: Does it; at once when somebody waits, and after a start.
    """

    def __init__(
        self,
        log: TransactionLog,
        table: BatchTable,
        find_topic: Callable[[str], TopicConfig | None],
        clock: Clock,
    ) -> None:
        """Publish nothing yet.

        Args:
            log: Where stages are, and messages go.
            table: The batches of this broker.
            find_topic: The topic of a name, or None.
            clock: Paces turns that nobody waits for.
        """
        self._log = log
        self._table = table
        self._find_topic = find_topic
        self._clock = clock
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self.loop = Loop("publish-batches", self.turn, interval_s=RETRY_SECONDS, clock=clock)

    async def finish(self, query_id: str) -> None:
        """Wait until all that is committed of a query is visible.

        It goes on when whoever waits gives up.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: Not all is visible yet; it is tried again.
        """
        if not any(batch.query_id == query_id for batch in self._table.publications):
            return
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(query_id, []).append(finished)
        self.loop.wake()
        await finished

    async def turn(self) -> None:
        """Publish all that is committed, in the order of each query."""
        failed: set[str] = set()
        for batch in sorted(self._table.publications):
            if batch.query_id in failed:
                continue
            try:
                await self._publish(self._table.publications[batch])
            except (StorageError, ServicekitError, OSError) as error:
                failed.add(batch.query_id)
                _log.warning("publication_failed", query_id=batch.query_id, cause=str(error))
                self._tell(batch.query_id, error)
        left = {batch.query_id for batch in self._table.publications}
        for query_id in [query_id for query_id in self._waiting if query_id not in left]:
            self._tell(query_id, None)

    def _tell(self, query_id: str, error: Exception | None) -> None:
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
            request = StageBatchRecordsRequest.FromString(fields.body)
            staged = staged_block(request)
            if self._find_topic(request.topic) is None:
                _log.warning(
                    "batch_topic_gone",
                    topic=request.topic,
                    query_id=publication.batch.query_id,
                    batch_id=publication.batch.batch_id,
                )
                continue
            for queue_id in np.unique(staged.queue_ids).tolist():
                first = publication.counts.get((stage, queue_id), 0)
                if first == np.count_nonzero(staged.queue_ids == queue_id):
                    continue
                block = rows_of_queue(staged, queue_id, first, stage)
                self._log.append(block, queue_id, fields.born_host)
                self._table.published(publication.batch, stage, queue_id, block.count)
                # Others have their turn between two appends.
                await asyncio.sleep(0)
        record = batch_record(BatchEvent.DONE, publication.batch, self._clock.now_ms())
        self._log.append_records(BATCH_TOPIC, [record])
        self._table.done(publication.batch)
