"""Parts of batches whose home is another broker: prepared here, and published on its word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from ariane_broker.errors.transactions import batch_undecided, sink_moved, transaction_decided
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_names import (
    check_attempts,
    check_batch,
    name_of,
    named_stages,
)
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_records import (
    BatchEvent,
    BatchKey,
    Contents,
    NamedAttempt,
    batch_record,
    contents_rows,
)
from ariane_broker.spark_batches.batch_table import BatchTable, Progress
from ariane_broker.spark_batches.batch_telling import BatchTelling
from ariane_broker.spark_batches.sink_homes import SinkHome
from ariane_broker.spark_batches.sink_peers import Fate, HomeElsewhere
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_servicekit import ServicekitError, get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class BatchParts:
    """Prepares parts, and publishes or releases them."""

    log: BrokerLog
    table: BatchTable
    publication: BatchPublication
    telling: BatchTelling
    _: KW_ONLY
    broker_name: str
    """The name of this broker."""
    now_ms: Callable[[], int]

    async def prepare(
        self, batch: BatchKey, home: SinkHome, decision_id: int, attempts: Sequence[NamedAttempt]
    ) -> None:
        """Keep attempts for the decision of a home; without any only check that it is the home.

        Raises:
            ServiceError: SINK_MOVED, TRANSACTION_NOT_FOUND, TRANSACTION_DECIDED, PEER_UNREACHABLE.
            StorageError: They are not kept.
        """
        check_batch(batch)
        check_attempts(attempts)
        self._take_home(batch.query_id, home)
        await self._settle_before(batch)
        if not attempts:
            return
        # A batch that cannot become visible is told before a later one is decided.
        await self.publication.finish(batch.query_id)
        self._take_home(batch.query_id, home)
        if self.table.is_committed(batch):
            raise transaction_decided(name_of(batch), "COMMIT")
        stages = [stage.commit_log_offset for stage in named_stages(self.table, batch, attempts)]
        record = batch_record(
            BatchEvent.PREPARE, batch, self.now_ms(), decision=decision_id, stages=stages
        )
        appended = self.log.append_records(BATCH_TOPIC, [record])
        self.table.prepare(batch, decision_id, stages)
        await self.log.promised(appended.next_commit_log_offset)

    async def publish(
        self, batch: BatchKey, home: SinkHome, contents: Contents, *, until_visible: bool
    ) -> None:
        """Keep a decision of a home, and make the part of the batch visible.

        Raises:
            ServiceError: SINK_MOVED, PEER_UNREACHABLE; with ``until_visible`` those of publication.
            StorageError: The decision is not kept, or with ``until_visible`` the part not visible.
        """
        check_batch(batch)
        if not self._knows(batch, contents.decision_id):
            self._take_home(batch.query_id, home)
            await self._settle_before(batch)
        if not self._knows(batch, contents.decision_id):
            self._take_home(batch.query_id, home)
            self._commit(batch, contents)
        await self.log.promised()
        self.publication.loop.wake()
        if until_visible:
            await self.publication.finish(batch.query_id)
            await self.log.promised()

    async def settle(self, batch: BatchKey) -> bool:
        """Do what the home has decided about what is prepared; return whether it is decided."""
        prepared, note = self.table.agreements.prepared.get(batch), self.table.homes.get(batch[0])
        if prepared is None:
            return True
        if note is None:
            return False
        try:
            if note.home.broker_name == self.broker_name:
                fate = await self.telling.fate_of(batch, prepared.decision_id)
            else:
                fate = await self.telling.peers.fate_of(
                    note.home.broker_name, batch, prepared.decision_id
                )
        except HomeElsewhere as error:
            self.telling.take_home(batch.query_id, error.home)
            return False
        except ServicekitError as error:
            _log.info("batch_waits_for_its_home", query_id=batch[0], cause=str(error))
            return False
        return self._settle(batch, prepared.decision_id, fate)

    def _settle(self, batch: BatchKey, decision_id: int, fate: Fate) -> bool:
        standing = self.table.agreements.prepared.get(batch)
        if standing is None or standing.decision_id != decision_id:
            return standing is None
        if not fate.decided:
            return False
        if fate.contents is None:
            self.log.append_records(
                BATCH_TOPIC, [batch_record(BatchEvent.RELEASE, batch, self.now_ms())]
            )
            self.table.release(batch)
            return True
        self._commit(batch, fate.contents)
        self.publication.loop.wake()
        return True

    async def _settle_before(self, batch: BatchKey) -> None:
        """Settle earlier batches of a query, so that its batches become visible in their order."""
        for earlier in self.table.agreements.prepared_of(batch.query_id):
            if earlier < batch and not await self.settle(earlier):
                raise batch_undecided(*earlier)

    def _commit(self, batch: BatchKey, contents: Contents) -> None:
        """Write a decision of the home, with the part of the batch that is prepared under it."""
        prepared = self.table.agreements.prepared.get(batch)
        is_this = prepared is not None and prepared.decision_id == contents.decision_id
        stages = prepared.stages if prepared is not None and is_this else ()
        now_ms = self.now_ms()
        record = batch_record(
            BatchEvent.COMMIT,
            batch,
            now_ms,
            contents=contents_rows({batch.batch_id: contents}),
            stages=stages,
        )
        appended = self.log.append_records(BATCH_TOPIC, [record])
        place = int(appended.first_commit_log_offset)
        progress = Progress(batch.batch_id, place, now_ms, {batch.batch_id: contents})
        self.table.commit(batch, stages, progress)

    def _knows(self, batch: BatchKey, decision_id: int) -> bool:
        """Whether a decision is kept here, and what was prepared under it is not waiting."""
        contents = self.table.contents_of(batch)
        return (
            contents is not None
            and contents.decision_id == decision_id
            and batch not in self.table.agreements.prepared
        )

    def _take_home(self, query_id: str, home: SinkHome) -> None:
        """Take the word of a home, unless a later one is noted."""
        note = self.table.homes.get(query_id)
        if note is not None and home.term < note.home.term:
            raise sink_moved(query_id, note.home.broker_name, note.home.move_count)
        self.telling.take_home(query_id, home)
