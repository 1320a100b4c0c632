"""From Arrow tables to rows: queues are chosen, rows cut and records encoded by column.

The outcome of each row of a table comes back by column, too, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ariane_record.encoding.columns.arrow_texts import (
    even_binaries,
    java_hashes,
    lengths_of,
)
from ariane_record.encoding.columns.column_encoder import encode_columns, record_sizes
from ariane_record.encoding.columns.message_columns import MessageColumns, packed_columns
from ariane_record.encoding.record_table import RecordTable
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.errors import ArianeError, ColumnsSendError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.message_tables import TablePart, table_parts
from ariane_sdk.producer.accumulator.row import (
    COLUMN_BYTES,
    DELIVERY_TIME_BYTES,
    KEY_HASH_BYTES,
    Row,
)
from ariane_sdk.producer.accumulator.topic_info import TopicInfo
from ariane_sdk.producer.intake.intake import Intake
from ariane_sdk.producer.intake.whole_rows import UNIQUE_ID_DIGITS_MAX, WholeRow, cuts
from ariane_sdk.producer.sending.unsettled import ProducerParts

STORED: Final = "stored"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
_OUTCOMES: Final = (STORED, REFUSED, UNKNOWN)
_NOWHERE: Final = -1


class ColumnOutcomes:
    """The outcomes of a table's rows, gathered by column."""

    def __init__(self, row_count: int) -> None:
        self._broker = np.full(row_count, _NOWHERE, np.int32)
        self._queue_id = np.full(row_count, _NOWHERE, np.int32)
        self._queue_offset = np.full(row_count, _NOWHERE, np.int64)
        self._error = np.full(row_count, _NOWHERE, np.int32)
        self._unique_ids: NDArray[np.uint8] | None = None
        self._brokers: dict[str, int] = {}
        self._errors: list[ArianeError] = []

    def take(self, sent: Row, rows: NDArray[np.int64]) -> None:
        """Take the outcome of a settled row of messages."""
        # A row of all messages needs no index array: a slice is faster.
        chosen = slice(None) if len(rows) == len(self._broker) else rows
        if sent.unique_ids is None:
            raise AssertionError("a row of a table came encoded")
        if self._unique_ids is None:
            shape = len(self._broker), sent.unique_ids.digit_count
            self._unique_ids = np.full(shape, ord("-"), np.uint8)
        self._unique_ids[chosen] = sent.unique_ids.digits
        if sent.stored is not None:
            queue, first = sent.queue, sent.stored.first_queue_offset
            broker = self._brokers.setdefault(queue.broker_name, len(self._brokers))
            self._broker[chosen] = broker
            self._queue_id[chosen] = queue.queue_id
            self._queue_offset[chosen] = np.arange(first, first + sent.stored.message_count)
        elif sent.error is not None:
            self.refuse(rows, sent.error)

    def refuse(self, rows: NDArray[np.int64], error: ArianeError) -> None:
        """Record that some rows were not acknowledged."""
        if len(rows):
            self._error[rows] = len(self._errors)
            self._errors.append(error)

    def result(self) -> pa.Table:
        """Where every row was stored.

        Raises:
            ColumnsSendError: Some rows were not acknowledged; the error has the outcome of every
                row.
        """
        if not self._errors:
            return pa.table(self._places(None))
        failed = self._error >= 0
        columns = self._places(failed)
        unknown = np.array([error.outcome_unknown for error in self._errors])
        codes = np.where(failed, np.where(unknown[self._error], 2, 1), 0).astype(np.int8)
        columns["outcome"] = _texts(codes, _OUTCOMES)
        reasons = [error.reason for error in self._errors]
        columns["reason"] = _texts(self._error, reasons)
        raise ColumnsSendError(pa.table(columns), self._errors, int(failed.sum()))

    def _places(self, missing: NDArray[np.bool_] | None) -> dict[str, pa.Array]:
        count = len(self._broker)
        if self._unique_ids is None:
            ids = pa.nulls(count, pa.string())
        else:
            ids = even_binaries(self._unique_ids, self._unique_ids.shape[1], pa.string())
        if missing is not None and self._unique_ids is not None:
            never_encoded = self._unique_ids[:, 0] == ord("-")
            if never_encoded.any():
                ids = ids.take(pa.array(np.arange(count), mask=never_encoded))
        return {
            "brokerName": _texts(self._broker, list(self._brokers)),
            "queueId": pa.array(self._queue_id, mask=missing),
            "queueOffset": pa.array(self._queue_offset, mask=missing),
            "messageId": ids,
        }


def _texts(codes: NDArray[np.signedinteger], texts: Sequence[str]) -> pa.StringArray:
    """Look up the text of each code; a negative code becomes null."""
    if len(texts) == 1 and texts[0] and not codes.any():
        text = texts[0].encode()
        return even_binaries(np.frombuffer(text * len(codes), np.uint8), len(text), pa.string())
    places = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.array(texts, pa.string()).take(places)


ROWS_AT_ONCE_MAX: Final = 1 << 16
"""Rows that are divided among queues at a time, which bounds the copies of their bodies."""

BYTES_AT_ONCE_MAX: Final = 16 << 20
"""The same in bytes of records."""

PACKED_BYTES_MAX: Final = 4 << 20
"""Bytes of records that are compressed at a time; the event loop waits for it."""

_ANY_QUEUE: Final = -1


class QueuedColumns(NamedTuple):
    """Rows for one queue, or for any queue."""

    queue: MessageQueue | None
    """The queue; None if any will do."""
    messages: MessageColumns
    """The rows."""
    rows: NDArray[np.int64]
    """Row numbers in the table: int64."""
    delivery_times_ms: NDArray[np.int64] | None = None
    """When each row is to be delivered; None for at once."""

    def slice(self, start: int, stop: int) -> Self:
        """Some neighbouring rows."""
        return self._chosen(self.messages.slice(start, stop), slice(start, stop))

    def take(self, places: NDArray[np.int64]) -> Self:
        """Any rows, by their places here, in the order given."""
        return self._chosen(self.messages.take(places), places)

    def _chosen(self, messages: MessageColumns, places: Any) -> Self:
        times_ms = self.delivery_times_ms
        return self._replace(
            messages=messages,
            rows=self.rows[places],
            delivery_times_ms=None if times_ms is None else times_ms[places],
        )


class ColumnsIntake:
    """Takes tables and sends them."""

    def __init__(self, parts: ProducerParts, intake: Intake) -> None:
        self._intake = intake
        self._whole_rows = intake.whole_rows
        self._packing = intake.encoding.packing
        self._settings = parts.settings
        self._clock = parts.clock

    async def take_all(
        self,
        topic: str,
        table: Any,
        columns: Mapping[str, str] | None,
        *,
        timeout_s: float | None,
        trace_parents: tuple[str, ...] = (),
    ) -> pa.Table:
        """Check a whole table, then send it, and wait for the outcomes of its rows.

        Args:
            topic: The topic of all rows.
            table: The table.
            columns: Names of columns, by the field of a message that they hold.
            timeout_s: Time for the whole table; ``None``: ``send_timeout_s`` for each row.
            trace_parents: The sampled span in which the table is sent, as a W3C trace context,
                which brokers receive.

        Raises:
            ColumnIllegal: A column or row breaks a rule; nothing was sent.
            ColumnsSendError: Some rows were not acknowledged.
        """
        deadline_s = float("inf")
        if timeout_s is not None:
            deadline_s = self._clock.monotonic_s() + timeout_s
        parts = table_parts(
            table,
            columns,
            body_bytes_max=self._settings.body_bytes_max,
            with_delivery_times=True,
        )
        outcomes = ColumnOutcomes(parts[-1].first_row + len(parts[-1].messages))
        grouped = any(part.messages.message_group is not None for part in parts)
        info = await self._intake.info_of(topic, grouped=grouped)
        rows: list[NDArray[np.int64]] = []

        def divided(spread_count: int) -> Iterator[WholeRow]:
            for part in chain.from_iterable(map(partial(self._packed, info.topic), parts)):
                for queued in self._by_queue(info, part):
                    for start, stop in self._cuts(info, queued, spread_count):
                        piece = queued.slice(start, stop)
                        rows.append(piece.rows)
                        encode = partial(self._encoded, info, piece)
                        yield WholeRow(encode, piece.queue, piece.delivery_times_ms)

        sent = await self._whole_rows.send_all(
            info, divided, deadline_s=deadline_s, trace_parents=trace_parents
        )
        for row, numbers in zip(sent, rows, strict=True):
            if isinstance(row, Row):
                outcomes.take(row, numbers)
            else:
                outcomes.refuse(numbers, row)
        return outcomes.result()

    def _packed(self, topic: str, part: TablePart) -> Iterator[QueuedColumns]:
        """Compress large bodies, part by part as the caller asks for rows."""
        messages, first = part.messages, part.first_row
        numbers = np.arange(first, first + len(messages))
        whole = QueuedColumns(None, messages, numbers, part.delivery_times_ms)
        if self._packing.is_off:
            yield whole
            return
        sizes = record_sizes(topic, messages, unique_id_bytes=UNIQUE_ID_DIGITS_MAX)
        for start, stop in cuts(sizes, PACKED_BYTES_MAX, ROWS_AT_ONCE_MAX):
            piece = whole.slice(start, stop)
            yield piece._replace(messages=packed_columns(piece.messages, self._packing))

    def _by_queue(self, info: TopicInfo, part: QueuedColumns) -> Iterator[QueuedColumns]:
        """Divide rows among queues; order is kept within each queue."""
        times_ms = part.delivery_times_ms
        if times_ms is not None:
            # All messages of a row are delivered at once, or all of them later.
            later = np.flatnonzero(times_ms)
            if len(later):
                yield part.take(later)
            part = part.take(np.flatnonzero(times_ms == 0))._replace(delivery_times_ms=None)
        if part.messages.message_group is None:
            yield part
            return
        sizes = record_sizes(info.topic, part.messages, unique_id_bytes=UNIQUE_ID_DIGITS_MAX)
        for start, stop in cuts(sizes, BYTES_AT_ONCE_MAX, ROWS_AT_ONCE_MAX):
            window = part.slice(start, stop)
            queues = info.group_queues
            groups = window.messages.message_group
            # If the queues are not known, ``_encoded`` raises an error that says why.
            queue_of_row = java_hashes(groups) % max(1, len(queues))
            queue_of_row[(lengths_of(groups) == 0) | (not queues)] = _ANY_QUEUE
            for number in np.unique(queue_of_row).tolist():
                chosen = window.take(np.flatnonzero(queue_of_row == number))
                yield chosen._replace(queue=None if number == _ANY_QUEUE else queues[number])

    def _cuts(
        self, info: TopicInfo, queued: QueuedColumns, spread_count: int
    ) -> Iterator[tuple[int, int]]:
        """Divide the rows of a queue."""
        messages = queued.messages
        rows_max = ROWS_AT_ONCE_MAX
        if queued.queue is None and len(messages):
            rows_max = min(rows_max, info.count_per_queue(len(messages), spread_count))
        sizes = record_sizes(info.topic, messages, unique_id_bytes=UNIQUE_ID_DIGITS_MAX)
        sizes += COLUMN_BYTES
        if messages.keys is not None:
            sizes += KEY_HASH_BYTES * messages.keys.counts
        if queued.delivery_times_ms is not None:
            sizes += DELIVERY_TIME_BYTES
        return cuts(sizes, self._settings.batch_bytes_max, rows_max)

    def _encoded(self, info: TopicInfo, queued: QueuedColumns) -> tuple[RecordTable, UniqueIds]:
        """Encode rows as a table of one row; returns it with the unique ids.

        Raises:
            QueueOrderUnknown: No name server knows the order of queues for the message groups.
        """
        topic, messages = info.properties, queued.messages
        groups = messages.message_group
        if queued.queue is None and groups is not None and lengths_of(groups).any():
            info.check_groups()
        bodies = messages.lone_bodies()
        if bodies is not None:
            lengths = lengths_of(messages.body).astype(np.int32)
            return self._whole_rows.encoded_run(topic, topic.of_tag(""), bodies, lengths)
        unique_ids = self._whole_rows.new_unique_ids(len(messages))
        table = encode_columns(
            topic.name,
            messages,
            unique_ids=even_binaries(unique_ids.digits, unique_ids.digit_count, pa.string()),
            born_timestamp_ms=self._clock.now_ms(),
            sequenced=self._settings.idempotent,
        )
        return table, unique_ids
