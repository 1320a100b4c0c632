"""Parts of batches whose home is another broker: prepared here, and published on its word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from ariane_broker.errors.transactions import (
    batch_undecided,
    is_sink_not_found,
    sink_moved,
    transaction_decided,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_coordinator import BatchCoordinator
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.records.batch_names import (
    check_attempts,
    check_batch,
    name_of,
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
from ariane_broker.spark_batches.records.sink_homes import SinkHome
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
    coordinator: BatchCoordinator
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
            # Only a home that lost what it had told decides again; its own past decision is undone.
            if self.table.is_committed(batch) and batch not in self.table.agreements.owed:
                raise transaction_decided(name_of(batch), "COMMIT")
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

    async def settle(self, batch: BatchKey, *, forgotten_is_settled: bool = False) -> bool:
        """Do what the home has decided about what is prepared; return whether it is decided.

        Args:
            batch: The batch.
            forgotten_is_settled: Whether it counts as decided, if the home has forgotten the query.
        """
        settled = True
        for decision_id in list(self.table.agreements.prepared.get(batch, ())):
            try:
                settled &= await self._settle(batch, decision_id)
            except ServicekitError as error:
                _log.info("batch_waits_for_its_home", query_id=batch[0], cause=str(error))
                settled &= forgotten_is_settled and is_sink_not_found(error)
        return settled

    async def _settle(self, batch: BatchKey, decision_id: int) -> bool:
        """The same for one decision.

        Raises:
            ServicekitError: The home does not say.
        """
        note = self.table.homes.get(batch.query_id)
        if note is None:
            return False
        try:
            if note.home.broker_name == self.broker_name:
                fate = await self.coordinator.fate_of(batch, decision_id)
            else:
                fate = await self.coordinator.peers.fate_of(
                    note.home.broker_name, batch, decision_id
                )
        except HomeElsewhere as error:
            self.coordinator.take_home(batch.query_id, error.home)
            return False
        return self._follow(batch, decision_id, fate)

    def _follow(self, batch: BatchKey, decision_id: int, fate: Fate) -> bool:
        """Do what was decided, unless it is done; return whether it is decided."""
        if decision_id not in self.table.agreements.prepared.get(batch, {}):
            return True
        if not fate.decided:
            return False
        if fate.contents is None:
            record = batch_record(BatchEvent.RELEASE, batch, self.now_ms(), decision=decision_id)
            self.log.append_records(BATCH_TOPIC, [record])
            self.table.release(batch, decision_id)
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
        parts = self.table.agreements.prepared.get(batch, {})
        self.coordinator.commit(batch, contents, parts.get(contents.decision_id, ()))

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
        self.coordinator.take_home(query_id, home)
