"""Staging of one task attempt: rows are sent as blocks of records, to all brokers of the sink.

Blocks go to the brokers in turn, one call after another to each; during calls the next block is
encoded. The order within queues, and so within message groups, is kept.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import numpy as np

from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_record.single.compression import BodyPacking
from ariane_sdk import MessageQueue
from ariane_sdk.errors import CallError, ColumnIllegal
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Attempt, SinkBatch
from ariane_spark.options.write_options import NO_COMPRESSION, BodyCompression
from ariane_spark.records.bad_rows import BODY_BYTES_MAX
from ariane_spark.records.rows import TopicRows, row_refusal

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ariane_record.encoding.columns.message_columns import MessageColumns

ID_BYTES: Final = 32


class CallUnderWay(NamedTuple):
    """A call that stages records."""

    end: Callable[[], None]
    """Waits for its end."""
    rows: NDArray[np.int64]
    """Numbers of its rows within the task."""


@dataclass(slots=True)
class _Part:
    """What one broker has of the attempt."""

    record_count: int = 0
    checksum: int = 0
    under_way: CallUnderWay | None = None


class _Share(NamedTuple):
    """Rows for one broker."""

    rows: TopicRows
    broker_name: str
    """The broker; empty: the next one in turn, for each block."""
    queue_ids: NDArray[np.int32] | None
    """The queue of each row; None: the next one in turn."""


class StagedAttempt:
    """One attempt of one task."""

    def __init__(
        self,
        calls: BatchTransactions,
        batch: SinkBatch,
        partition_id: int,
        *,
        name: str,
        block_bytes_max: int,
        compression: BodyCompression = NO_COMPRESSION,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Stage nothing yet; ``name`` is that of the task, for errors of rows.

        The records of one call have ``block_bytes_max``; a larger record is alone.
        """
        self._calls = calls
        self._batch = batch
        self._partition_id = partition_id
        self._name = name
        self._block_bytes_max = block_bytes_max
        self._compression = compression
        self._now_ms = now_ms
        self._token = uuid4().hex
        self._parts: dict[str, _Part] = defaultdict(_Part)
        self._queues: dict[str, list[MessageQueue]] = {}
        self._group_queues: dict[str, list[MessageQueue]] = {}
        # Tasks and batches begin with different queues, so that all get their share.
        self._turn = partition_id + batch.batch_id

    def add(self, share: TopicRows) -> None:
        """Stage rows; rows added before are staged when this returns.

        Args:
            share: Rows from ``RowPlan.tables``.

        Raises:
            RowIllegal: A row cannot become a message, or the broker refused it.
            ArianeError: The broker refused, or does not answer.
            QueueNotFound: The topic has no queue on a broker of the sink.
        """
        for part in self._divided(share):
            self._add(*part)

    def _add(self, share: TopicRows, broker_name: str, queue_ids: NDArray[np.int32] | None) -> None:
        # The SDK checks tables that it sends the same way, so both guarantees refuse the same rows.
        from ariane_record.encoding.columns.message_columns import packed_columns  # noqa: PLC0415 - it needs Arrow.
        from ariane_sdk.message_tables import table_parts  # noqa: PLC0415 - the same.

        packing = BodyPacking(
            self._compression.kind,
            self._compression.level,
            size_bytes_min=self._compression.bytes_min,
        )
        ids = _ids_of(share.table)
        try:
            parts = table_parts(
                share.table, None, body_bytes_max=BODY_BYTES_MAX, with_delivery_times=True
            )
        except ColumnIllegal as error:
            raise row_refusal(error, share.rows, error.row, self._name) from error
        for part in parts:
            messages, times_ms = packed_columns(part.messages, packing), part.delivery_times_ms
            for start, stop in self._cuts(share.topic, messages):
                chosen = slice(part.first_row + start, part.first_row + stop)
                if queue_ids is None:
                    queue = self._next_queue(share.topic)
                    broker, block_queue_ids = (
                        queue.broker_name,
                        np.full(stop - start, queue.queue_id, np.int32),
                    )
                else:
                    broker, block_queue_ids = broker_name, queue_ids[chosen]
                request = self._request(
                    share.topic,
                    messages.slice(start, stop),
                    ids[chosen],
                    None if times_ms is None else times_ms[start:stop],
                    block_queue_ids,
                )
                self._stage(broker, request, share.rows[chosen])

    def wait(self) -> None:
        """Wait until all added rows are staged.

        Raises:
            RowIllegal: The broker refused a row.
            ArianeError: The rows are not staged.
        """
        for part in self._parts.values():
            self._wait(part)

    def finish(self) -> tuple[Attempt, ...]:
        """Wait until all rows are staged; return the parts for the commit.

        Raises:
            RowIllegal: The broker refused a row.
            ArianeError: The rows are not staged.
        """
        self.wait()
        return tuple(
            Attempt(self._partition_id, self._token, part.record_count, part.checksum, name)
            for name, part in self._parts.items()
        )

    def _wait(self, part: _Part) -> None:
        """Wait for the call that is under way to a broker."""
        if part.under_way is None:
            return
        (end, rows), part.under_way = part.under_way, None
        try:
            end()
        except CallError as error:
            position = error.metadata.get("position", "")
            if position.isdecimal() and int(position) < len(rows):
                raise row_refusal(error, rows, int(position), self._name) from error
            raise

    def _request(
        self,
        topic: str,
        messages: MessageColumns,
        ids: pa.StringArray,
        times_ms: NDArray[np.int64] | None,
        queue_ids: NDArray[np.int32],
    ) -> StageBatchRecordsRequest:
        from ariane_record.encoding.columns.column_encoder import encode_columns  # noqa: PLC0415 - it needs Arrow.

        block = encode_columns(topic, messages, unique_ids=ids, born_timestamp_ms=self._now_ms())
        if times_ms is None or not times_ms.any():
            times_ms = np.zeros(0, np.int64)
        return StageBatchRecordsRequest(
            query_id=self._batch.sink.name,
            batch_id=self._batch.batch_id,
            partition_id=self._partition_id,
            attempt_token=self._token,
            topic=topic,
            record_sizes=block.sizes.astype("<i4").tobytes(),
            tag_codes=block.tag_codes.astype("<i4").tobytes(),
            key_counts=block.key_counts.tobytes(),
            key_hashes=block.key_hashes.astype("<i4").tobytes(),
            records_crc32=block.crc32,
            queue_ids=queue_ids.astype("<i4").tobytes(),
            delivery_times_ms=times_ms.astype("<i8").tobytes(),
            records=bytes(block.records),
        )

    def _stage(
        self, broker_name: str, request: StageBatchRecordsRequest, rows: NDArray[np.int64]
    ) -> None:
        part = self._parts[broker_name]
        self._wait(part)
        request.record_count_before = part.record_count
        end = self._calls.stage(broker_name, self._batch.sink, request)
        part.under_way = CallUnderWay(end, rows)
        part.record_count += len(rows)
        checksum = request.records_crc32.to_bytes(4, "little")
        part.checksum = zlib.crc32(checksum, part.checksum)

    def _cuts(self, topic: str, messages: MessageColumns) -> Iterator[tuple[int, int]]:
        """The division of rows into blocks."""
        from ariane_record.encoding.columns.column_encoder import record_sizes  # noqa: PLC0415 - it needs Arrow.

        ends = np.cumsum(record_sizes(topic, messages, unique_id_bytes=ID_BYTES))
        start = 0
        while start < len(ends):
            behind = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, behind + self._block_bytes_max, side="right"))
            stop = max(stop, start + 1)
            yield start, stop
            start = stop

    def _next_queue(self, topic: str) -> MessageQueue:
        """The next queue in turn."""
        if topic not in self._queues:
            self._queues[topic] = self._calls.write_queues(self._batch.sink, topic)
        queues = self._queues[topic]
        self._turn += 1
        return queues[self._turn % len(queues)]

    def _divided(self, share: TopicRows) -> Iterator[_Share]:
        """Rows by broker where message groups decide; others wait for their turn."""
        from ariane_record.encoding.columns.arrow_texts import java_hashes, lengths_of  # noqa: PLC0415 - needs Arrow.

        groups = _groups_of(share.table)
        grouped = None if groups is None else lengths_of(groups) > 0
        if grouped is None or not grouped.any():
            yield _Share(share, "", None)
            return
        topic = share.topic
        if topic not in self._group_queues:
            self._group_queues[topic] = self._calls.group_queues(self._batch.sink, topic)
        queues = [*self._group_queues[topic], self._next_queue(topic)]
        places = np.where(grouped, java_hashes(groups) % (len(queues) - 1), len(queues) - 1)
        names = sorted({queue.broker_name for queue in queues})
        brokers = np.array([names.index(queue.broker_name) for queue in queues])[places]
        queue_ids = np.array([queue.queue_id for queue in queues], np.int32)[places]
        for number in np.unique(brokers).tolist():
            rows = np.flatnonzero(brokers == number)
            table = share.table if len(rows) == len(places) else share.table.take(rows)
            chosen = TopicRows(topic, table, share.rows[rows])
            yield _Share(chosen, names[number], queue_ids[rows])


def _groups_of(table: pa.Table) -> Any:
    """The message groups of rows, empty for none; ``None`` without the column."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    if "messageGroup" not in table.column_names:
        return None
    groups = table["messageGroup"].combine_chunks()
    if isinstance(groups, pa.ChunkedArray):
        groups = groups.chunk(0) if groups.num_chunks else pa.array([], pa.string())
    return groups.cast(pa.string()).fill_null("")


def _ids_of(table: pa.Table) -> Any:
    """The id of each row, which ``RowPlan`` puts after its other properties."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    properties = table["properties"].combine_chunks()
    if isinstance(properties, pa.ChunkedArray):
        properties = properties.chunk(0)
    last = properties.offsets.to_numpy()[1:] - 1
    return properties.items.take(pa.array(last))
