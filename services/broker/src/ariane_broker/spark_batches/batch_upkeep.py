"""Upkeep of batches: asks about prepared ones, drops abandoned ones, repeats old notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_parts import BatchParts
from ariane_broker.spark_batches.records.batch_records import (
    BatchEvent,
    BatchKey,
    batch_record,
    contents_rows,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.sink_homes import note_json
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_servicekit import get_logger, in_turns
from ariane_storage.errors import StoreFull

QUERY_IDLE_MS: Final = 90 * 86_400_000
"""Time without a commit after which a query is forgotten."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class BatchUpkeep:
    """Asks homes about prepared batches, drops abandoned ones, and writes old notes again."""

    log: BrokerLog
    table: BatchTable
    commits: BatchCommits
    parts: BatchParts
    _: KW_ONLY
    now_ms: Callable[[], int]
    expiry_ms: int
    """How long staged records wait for their commit."""
    retention_ms: float
    """How long the log is kept."""

    async def turn(self) -> None:
        """Ask about prepared batches, drop abandoned ones, and write old records again."""
        for batch in list(self.table.agreements.prepared):
            await self.parts.settle(batch)
        try:
            await in_turns(self._expire())
            await in_turns(self._repeat_old_records())
        except StoreFull as error:
            _log.warning("batch_upkeep_failed", cause=str(error))

    def _expire(self) -> Iterator[None]:
        """Drop staged batches whose last record is too old, unless a home may commit them."""
        limit_ms = self.now_ms() - self.expiry_ms
        for batch, attempts in list(self.table.staged.items()):
            yield
            if batch not in self.table.staged or self.commits.is_promised(batch):
                continue
            last_ms = max(stages[-1].store_timestamp_ms for stages in attempts.values())
            if last_ms < limit_ms:
                self.commits.drop(batch)
                _log.warning(
                    "staged_batch_expired", query_id=batch.query_id, batch_id=batch.batch_id
                )

    def _repeat_old_records(self) -> Iterator[None]:
        """Write the progress and the homes of queries again, before retention deletes them."""
        table = self.table
        if not (table.progress or table.homes):
            return
        old = self.log.store.offset_before(round(self.now_ms() - self.retention_ms / 2))
        idle_ms = self.now_ms() - QUERY_IDLE_MS
        for query_id in sorted({*table.progress, *table.homes}):
            yield
            progress, note = table.progress.get(query_id), table.homes.get(query_id)
            records = [each for each in (progress, note) if each is not None]
            if not records or min(each.commit_log_offset for each in records) >= old:
                continue
            idle = max(each.timestamp_ms for each in records) < idle_ms
            # Where some broker waits for a word about a batch, it may be given as late as this.
            if idle and not table.is_open(query_id):
                table.forget_query(query_id)
                continue
            # In this order: a note may contain batches that are older than the progress.
            if note is not None:
                place = self._write(BatchEvent.HOME, query_id, 0, **note_json(note))
                table.homes[query_id] = replace(note, commit_log_offset=place)
            if progress is not None:
                place = self._write(
                    BatchEvent.PROGRESS,
                    query_id,
                    progress.batch_id,
                    contents=contents_rows(progress.contents),
                    timestamp=progress.timestamp_ms,
                )
                table.advance(query_id, replace(progress, commit_log_offset=place))

    def _write(self, event: BatchEvent, query_id: str, batch_id: int, **says: Any) -> int:
        """Append a record of the batch topic; return its commit-log offset."""
        record = batch_record(event, BatchKey(query_id, batch_id), self.now_ms(), **says)
        return int(self.log.append_records(BATCH_TOPIC, [record]).first_commit_log_offset)
