"""The one door into the log: appends records, informs all parts concerned, and waits for promises.

Everything that a broker stores passes here: batches of producers, parked and delivered messages,
failed messages and dead letters, transactions, batches of Spark. All steps of an append run in one
turn of the loop, so that memory and log agree::

    append ----> store                  the record is written
                 producer sequences     know the batch, to recognise a repeat
                 statistics
                 listeners of the topic (the delay queues)
                 replicas               are handed the bytes, where there are any
                 arrivals               held pulls wake, once the records may be read
                 upkeep                 room ahead of the writer, keys to be filed

The caller then waits for the promise for all before ``next_commit_log_offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.derived.producer_sequences import NextBatches, ProducerSequences
from ariane_broker.log.held_requests import Arrivals
from ariane_broker.log.promise import AcknowledgedLevel, Promises
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.log.store_keeping import StoreKeeping
from ariane_broker.queue_key import QueueKey
from ariane_record import ProducerSequence, RecordFields, RecordTable
from ariane_record.layout import Host
from ariane_record.single.message import EMPTY_HOST
from ariane_record.single.record_copy import RecordCopy, encode_block
from ariane_storage.errors import StoreFull
from ariane_storage.store import Store
from ariane_storage.writing.append import Appended

SYSTEM_QUEUE_ID: Final = 0
"""The only queue that most topics of the system have."""

_queue_id_of: Final[Callable[[QueueKey], int]] = itemgetter(1)

Listener: TypeAlias = Callable[[RecordTable, int, Appended], None]
"""Called with a table of one row, its queue id, and its place."""


class Replicas(Protocol):
    """Sends the log to replicas."""

    def check(self) -> None:
        """Refuse an append.

        Raises:
            ServiceError: This broker is not the primary now, or too few replicas are in sync.
        """
        ...

    def appended(self) -> None:
        """Note that the log has grown."""
        ...


class BrokerLog:
    """Appends records, and offers promises."""

    def __init__(
        self,
        store: Store,
        promises: Promises,
        sequences: ProducerSequences,
        arrivals: Arrivals,
        keeping: StoreKeeping,
        *,
        cold_reads: ColdReads,
        statistics: BrokerStatistics,
        monotonic: Callable[[], float],
        replicas: Replicas | None = None,
    ) -> None:
        self.store = store
        """The store, for reading."""
        self.cold_reads = cold_reads
        """Fetches what such reads do not find in memory."""
        self.promises = promises
        """Makes promises."""
        self.promise = promises.own
        """The promise without further demands."""
        self._sequences = sequences
        self._arrivals = arrivals
        self._keeping = keeping
        self._statistics = statistics
        self._monotonic = monotonic
        self._replicas = replicas
        self._listeners: dict[str, Listener] = {}

    def listen(self, topic: str, listener: Listener) -> None:
        """Call a function on each append to a topic of the system, in the same loop turn."""
        self._listeners[topic] = listener

    def append(
        self, table: RecordTable, queue_id: int = SYSTEM_QUEUE_ID, born_host: Host = EMPTY_HOST
    ) -> Appended:
        """Append one row of records in no stream.

        Args:
            table: The records.
            queue_id: The queue of their topic.
            born_host: The producer's address as the broker sees it.

        Raises:
            StorageError: Nothing is stored.
            ServiceError: Replicas prevent the append; nothing is stored.
        """
        return self.append_rows(table, (QueueKey(table.topics[0], queue_id),), born_host)

    def append_rows(
        self,
        table: RecordTable,
        queues: Sequence[QueueKey],
        born_host: Host,
        streams: NextBatches | None = None,
        sequences: Sequence[ProducerSequence | None] | None = None,
    ) -> Appended:
        """Append a table, all rows or none; several rows only for topics without a listener.

        Args:
            table: The records.
            queues: The queue of each row.
            born_host: The producer's address as the broker sees it.
            streams: The places of rows in their producers' streams.
            sequences: What the first records of rows must say of these; None for what the broker
                has encoded.

        Raises:
            StorageError: Nothing is stored.
            ServiceError: Replicas prevent the append; nothing is stored.
        """
        replicas = self._replicas
        if replicas is not None:
            replicas.check()
        begin_s = self._monotonic()
        try:
            appended = self.store.append(
                table, *map(_queue_id_of, queues), born_host=born_host, sequences=sequences
            )
        except StoreFull as error:
            self._keeping.refused(error.reason)
            raise
        edges = appended.edges
        if streams is not None:
            self._sequences.remember_all(streams, appended)
        self._statistics.count_append(
            len(appended.starts),
            edges[-1] - edges[0],
            self._monotonic() - begin_s,
            batch_count=len(queues),
        )
        listener = self._listeners.get(queues[0].topic)
        if listener is not None:
            listener(table, queues[0].queue_id, appended)
        self._arrivals.appended(queues, edges[1:], table.tag_codes, appended.counts)
        self._keeping.appended(edges[-1])
        if replicas is not None:
            replicas.appended()
        return appended

    def append_records(self, topic: str, records: Sequence[RecordFields | RecordCopy]) -> Appended:
        """Append records to the only queue of a topic of the system.

        Raises:
            StorageError: Nothing is stored.
        """
        return self.append(encode_block(topic, records), born_host=records[0].born_host)

    def append_own(self, queue: QueueKey, body: bytes) -> None:
        """Append a record of the broker's own to a queue of the system that has no listener.

        Args:
            queue: The queue.
            body: All that the record has.

        Raises:
            StorageError: Nothing is stored.
            ServiceError: Replicas prevent the append; nothing is stored.
        """
        replicas = self._replicas
        if replicas is not None:
            replicas.check()
        begin_s = self._monotonic()
        try:
            begin, end = self.store.append_own(*queue, body)
        except StoreFull as error:
            self._keeping.refused(error.reason)
            raise
        self._statistics.count_append(1, end - begin, self._monotonic() - begin_s)
        self._arrivals.appended((queue,), (end,))
        self._keeping.appended(end)
        if replicas is not None:
            replicas.appended()

    async def promised(self, end: int | None = None) -> AcknowledgedLevel:
        """Wait until the promise holds for the log before an offset.

        Args:
            end: The commit-log offset; None for the present end.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        if not self.promise.waits:
            return self.promise.level
        return await self.promise.kept(self.store.max_offset if end is None else end)

    def hasten(self) -> None:
        """Flush and replicate everything appended so far, although no call waits for it.

        Until then no consumer can read it.
        """
        if self.promise.waits:
            self.promise.when_kept(self.store.max_offset, _nobody_waits)

    async def message_at(self, commit_log_offset: int) -> RecordFields:
        """Read a message once it may be handed out.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: The record does not exist, or is damaged.
        """
        await self.confirmed(commit_log_offset)
        return self.store.message_at(commit_log_offset)

    async def copy_at(self, commit_log_offset: int) -> RecordCopy:
        """Read the parts of a record that a copy keeps, once the record may be handed out.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: The record does not exist, or is damaged.
        """
        await self.confirmed(commit_log_offset)
        return self.store.copy_at(commit_log_offset)

    async def confirmed(self, commit_log_offset: int) -> None:
        """Wait until the record at an offset may be handed out.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        if commit_log_offset >= self.store.confirmed_offset:
            await self.promised(commit_log_offset + 1)


def _nobody_waits(error: object) -> None:
    """Do nothing: a failed flush is reported to the broker, which ends."""
