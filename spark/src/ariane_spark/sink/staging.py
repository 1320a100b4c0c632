"""Staging of one task attempt: rows are sent as blocks of records, one call after another.

During a call the next block is encoded. The order within queues, and so within message groups, is
kept.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import numpy as np

from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_sdk.errors import CallError, ColumnIllegal
from ariane_spark.calls.batch_transactions import Attempt, BatchTransactions
from ariane_spark.calls.sink_batches import SinkBatch
from ariane_spark.errors import FeatureNotAvailable, QueueNotFound
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


class StagedAttempt:
    """One attempt of one task."""

    def __init__(
        self,
        calls: BatchTransactions,
        batch: SinkBatch,
        home: str,
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
        self._home = home
        self._partition_id = partition_id
        self._name = name
        self._block_bytes_max = block_bytes_max
        self._compression = compression
        self._now_ms = now_ms
        self._token = uuid4().hex
        self._record_count = 0
        self._checksum = 0
        self._under_way: CallUnderWay | None = None
        self._queue_counts: dict[str, int] = {}
        # Tasks and batches begin with different queues, so that all get their share.
        self._turn = partition_id + batch.batch_id

    def add(self, share: TopicRows) -> None:
        """Stage rows; rows added before are staged when this returns.

        Args:
            share: Rows from ``RowPlan.tables``.

        Raises:
            RowIllegal: A row cannot become a message, or the broker refused it.
            ArianeError: The broker refused, or does not answer.
            QueueNotFound: The topic has no queue on that broker.
        """
        # The SDK checks tables that it sends the same way, so both guarantees refuse the same rows.
        from ariane_record.encoding.columns.packed_columns import ColumnPacking  # noqa: PLC0415 - it needs Arrow.
        from ariane_sdk.message_tables import table_parts  # noqa: PLC0415 - the same.

        packing = ColumnPacking(
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
            messages, times_ms = packing.packed(part.messages), part.delivery_times_ms
            for start, stop in self._cuts(share.topic, messages):
                chosen = slice(part.first_row + start, part.first_row + stop)
                request = self._request(
                    share.topic,
                    messages.slice(start, stop),
                    ids[chosen],
                    None if times_ms is None else times_ms[start:stop],
                )
                self._stage(request, share.rows[chosen])

    def wait(self) -> None:
        """Wait until all added rows are staged.

        Raises:
            RowIllegal: The broker refused a row.
            ArianeError: The rows are not staged.
        """
        if self._under_way is None:
            return
        (end, rows), self._under_way = self._under_way, None
        try:
            end()
        except CallError as error:
            position = error.metadata.get("position", "")
            if position.isdecimal() and int(position) < len(rows):
                raise row_refusal(error, rows, int(position), self._name) from error
            raise

    def finish(self) -> Attempt:
        """Wait until all rows are staged; return the part for the commit.

        Raises:
            RowIllegal: The broker refused a row.
            ArianeError: The rows are not staged.
        """
        self.wait()
        return Attempt(self._partition_id, self._token, self._record_count, self._checksum)

    def _request(
        self,
        topic: str,
        messages: MessageColumns,
        ids: pa.StringArray,
        times_ms: NDArray[np.int64] | None,
    ) -> StageBatchRecordsRequest:
        from ariane_record.encoding.columns.column_encoder import encode_columns  # noqa: PLC0415 - it needs Arrow.

        queue_ids = self._queue_ids(topic, messages)
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
            record_count_before=self._record_count,
            delivery_times_ms=times_ms.astype("<i8").tobytes(),
            records=bytes(block.records),
        )

    def _stage(self, request: StageBatchRecordsRequest, rows: NDArray[np.int64]) -> None:
        self.wait()
        end = self._calls.stage(self._home, self._batch.sink, request)
        self._under_way = CallUnderWay(end, rows)
        self._record_count += len(rows)
        checksum = request.records_crc32.to_bytes(4, "little")
        self._checksum = zlib.crc32(checksum, self._checksum)

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

    def _queue_ids(self, topic: str, messages: MessageColumns) -> NDArray[np.int32]:
        """The queue of each row: that of its group, or the next one in turn."""
        from ariane_record.encoding.columns.arrow_texts import java_hashes, lengths_of  # noqa: PLC0415 - needs Arrow.

        count = self._queue_count(topic, grouped=messages.message_group is not None)
        self._turn += 1
        queue_ids = np.full(len(messages), self._turn % count, np.int32)
        if messages.message_group is not None:
            grouped = lengths_of(messages.message_group) > 0
            queue_ids[grouped] = (java_hashes(messages.message_group) % count)[grouped]
        return queue_ids

    def _queue_count(self, topic: str, *, grouped: bool) -> int:
        if topic not in self._queue_counts:
            count = self._calls.write_queue_count(topic, self._home)
            if not count:
                raise QueueNotFound(
                    f"topic {topic} has no queue to write on broker {self._home}, where all"
                    " messages of this exactly-once sink go"
                )
            if grouped and self._calls.divides_groups(topic):
                raise FeatureNotAvailable(
                    "deliveryGuarantee",
                    f"the message groups of {topic}, a topic of type FIFO, are divided among"
                    " several brokers, and an exactly-once sink writes to one",
                )
            self._queue_counts[topic] = count
        return self._queue_counts[topic]


def _ids_of(table: pa.Table) -> Any:
    """The id of each row, which ``RowPlan`` puts after its other properties."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    properties = table["properties"].combine_chunks()
    if isinstance(properties, pa.ChunkedArray):
        properties = properties.chunk(0)
    last = properties.offsets.to_numpy()[1:] - 1
    return properties.items.take(pa.array(last))
