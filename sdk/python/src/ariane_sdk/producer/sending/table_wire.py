"""A table on the wire: the request of some rows, and the answer to it.

Protocol Buffers encodes the columns. It would copy the records twice, into freshly mapped pages;
here they are copied once, when all parts of the request are joined. The pieces of a row that came
encoded come together only then.

Of the spans in which the messages were sent, brokers that trace appends get the sampled ones: the
others are recorded nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsRequest,
    AppendRowResult,
    AppendTable,
    AppendTableResult,
)
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.row_encoder import EncodedRows
from ariane_record.layout import ByteBuffer
from ariane_record.names import TRACE_PARENT
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.wire_fields import (
    int32s,
    int64s,
    int64s_of,
    length_prefix,
    length_tag,
)
from ariane_sdk.checks.delay import AFTER_DELAYS, AT_ONCE, AT_TIMES
from ariane_sdk.errors import CallError
from ariane_sdk.message import AcknowledgedLevel, Message, SendResult, send_results
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_status
from ariane_sdk.net.timestamps import timestamp_ms
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.send_results import StoredRow

_TABLE: Final = length_tag(AppendRecordsRequest.TABLE_FIELD_NUMBER)
_TABLE_RECORDS: Final = length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER)
_TRACE_PARENTS: Final = length_tag(AppendRecordsRequest.TRACE_PARENTS_FIELD_NUMBER)
_LEVEL_MAX: Final = 255
"""Brokers cut higher levels to their highest one, which is far below."""

_NO_STREAM: Final = -1
_NOWHERE: Final = MessageQueue("", "", 0)
_LEVELS: Final = {level.value: level for level in AcknowledgedLevel}
"""By their numbers in the contract."""


def table_request(
    rows: Sequence[Row],
    tables: Sequence[RecordTable],
    encoded: EncodedRows | None,
    trace_parents: Iterable[str] = (),
) -> bytes:
    """Encode an AppendRecordsRequest.

    Args:
        rows: The rows.
        tables: The records of the first rows, each by itself.
        encoded: The records of the other rows.
        trace_parents: The trace contexts that the broker gets.
    """
    columns: dict[str, Any] = {
        "topics": [row.topic for row in rows],
        "queue_ids": int32s([row.queue.queue_id for row in rows]),
    }
    _put_sequences(columns, rows)
    pieces: Sequence[ByteBuffer] = ()
    if tables:
        every = tables if encoded is None else [*tables, encoded.table()]
        pieces = _put_records(columns, RecordTable.joined(every))
    elif encoded is not None:
        pieces = [encoded.records]
        columns["record_counts"] = int32s(encoded.counts)
        columns["record_sizes"] = int32s(encoded.sizes)
        columns["tag_codes"] = encoded.tag_codes
        columns["key_counts"] = encoded.key_counts
        columns["key_hashes"] = encoded.key_hashes
        columns["records_crc32"] = encoded.crc32
    for row in rows:
        if row.kind != AT_ONCE or row.demand is not None or row.half_of:
            _put_terms(columns, rows)
            break
    # All at once: each field that is set by itself costs as much as all of a small table.
    head = AppendTable(**columns).SerializeToString()
    parents: list[ByteBuffer] = []
    for trace_parent in trace_parents:
        parents += (length_prefix(_TRACE_PARENTS, len(trace_parent)), trace_parent.encode())
    before = length_prefix(_TABLE, len(head))
    between = length_prefix(_TABLE_RECORDS, sum(map(len, pieces)))
    return b"".join((*parents, before, head, between, *pieces))


def _put_sequences(columns: dict[str, Any], rows: Sequence[Row]) -> None:
    """Put the place of each row into the table; without any, the columns stay empty."""
    sequences = [row.sequence for row in rows]
    if not any(sequences):
        return
    columns["producer_id"] = next(each.producer_id for each in sequences if each is not None)
    columns["producer_epochs"] = int32s([0 if each is None else each.epoch for each in sequences])
    columns["first_sequences"] = int64s(
        [_NO_STREAM if each is None else each.first_sequence for each in sequences]
    )


def _put_records(columns: dict[str, Any], records: RecordTable) -> Sequence[ByteBuffer]:
    """Put the columns of records into the table; returns the pieces of the records."""
    columns["record_counts"] = int32s(records.counts)
    columns["record_sizes"] = _on_wire(records.sizes)
    columns["tag_codes"] = _on_wire(records.tag_codes)
    columns["key_counts"] = records.key_counts.tobytes()
    columns["key_hashes"] = _on_wire(records.key_hashes)
    columns["records_crc32"] = records.crc32
    if records.record_crcs is not None:
        columns["record_crc32s"] = _on_wire(records.record_crcs)
    return records.pieces


def _put_terms(columns: dict[str, Any], rows: Sequence[Row]) -> None:
    """Put delays, demands and the groups of half messages into the table."""
    kinds = {row.kind for row in rows}
    if max(kinds) > AT_ONCE:
        columns["delay_levels"] = bytes([min(max(row.kind, AT_ONCE), _LEVEL_MAX) for row in rows])
    if AT_TIMES in kinds:
        columns["delivery_times_ms"] = b"".join([_times(row, AT_TIMES) for row in rows])
    if AFTER_DELAYS in kinds:
        columns["delays_ms"] = b"".join([_times(row, AFTER_DELAYS) for row in rows])
    if any(row.half_of for row in rows):
        columns["half_groups"] = [row.half_of for row in rows]
    demands = [row.demand for row in rows]
    if any(demand is not None for demand in demands):
        columns["required_levels"] = bytes(
            [0 if each is None else int(each.level) for each in demands]
        )
        columns["in_sync_mins"] = int32s(
            [0 if each is None else each.in_sync_min for each in demands]
        )


def _times(row: Row, kind: int) -> bytes:
    """The times of a row's records; zeros in a row of another kind."""
    if row.kind != kind:
        return bytes(8 * row.count)
    if row.times_ms is not None:
        return row.times_ms.astype("<i8", copy=False).tobytes()
    return int64s([time_ms for _, _, _, _, time_ms, _ in row.messages])


def _on_wire(column: NDArray[np.int32] | NDArray[np.uint32]) -> bytes:
    """Encode a column of packed numbers, little-endian."""
    return (column.byteswap() if sys.byteorder == "big" else column).tobytes()


class _Places(NamedTuple):
    """Where a broker stored the rows of a table."""

    queue_offsets: list[int]
    """Queue offset of the first message of each row."""
    log_offsets: list[int]
    """Commit-log offset of the first record of each row."""
    record_offsets: list[int]
    """Commit-log offset of each record; empty if they follow from their sizes."""


class SentRows(NamedTuple):
    """The rows of a request."""

    rows: Sequence[Row]
    """The rows; those that were encoded already come first."""
    encoded: EncodedRows | None
    """The records of the other rows."""
    unique_ids: UniqueIds | None
    """Their ids."""

    def keep_encoded(self) -> None:
        """Let each row without an outcome keep its records: it is repeated as it was sent."""
        encoded, unique_ids = self.encoded, self.unique_ids
        if encoded is None or unique_ids is None:
            return
        begin = 0
        rows = self.rows[-len(encoded.counts) :]
        for row, table in zip(rows, encoded.table().rows(), strict=True):
            if not row.settled:
                row.table, row.unique_ids = table, unique_ids.part(begin, begin + table.count)
            begin += table.count


def settle_rows(
    sent: SentRows, result: AppendTableResult, *, address: str, peer: str
) -> list[tuple[Row, CallError]]:
    """Give the senders of a request their results.

    Args:
        sent: What was sent.
        result: The answer.
        address: The broker, "host:port".
        peer: Its name and address, for the text of errors.

    Returns:
        The rows that were not acknowledged, each with the reason.

    Raises:
        ValueError: The result counts other rows or records. No sender got a result.
    """
    counts = [row.count for row in sent.rows]
    places = _places(result, len(counts), sum(counts))
    others = {each.row: each for each in result.rows}
    usual = StoredRow(
        _NOWHERE,
        0,
        _LEVELS[result.acknowledged_level],
        timestamp_ms(result.store_time),
        address,
        duplicate=False,
    )
    results = _results_of_fresh(sent, counts, places, usual)
    refused: list[tuple[Row, CallError]] = []
    begin = record = 0
    for place, (row, count) in enumerate(zip(sent.rows, counts, strict=True)):
        own = None if row.table is not None else results[begin : begin + count]
        begin, record = begin + (0 if own is None else count), record + count
        other = others.get(place)
        if other is None and own is not None and not row.relayed and row.kind >= AT_ONCE:
            row.give(own)
            continue
        if other is not None and other.HasField("error"):
            refused.append((row, error_from_status(other.error, peer=peer)))
            continue
        stored = _stored_as(row, usual, places.queue_offsets[place], other)
        if own is not None:
            log_offsets = [each.commit_log_offset for each in own]
            row.settle(stored, log_offsets, [each.unique_id for each in own])
        elif row.table is not None:
            offsets = places.record_offsets[record - count : record]
            starts = offsets or _offsets(row.table.sizes, places.log_offsets[place])
            _settle_table(row, stored, np.array(starts))
    return refused


def _stored_as(
    row: Row, usual: StoredRow, queue_offset: int, other: AppendRowResult | None
) -> StoredRow:
    """Where and how a row was stored, as others or otherwise."""
    stored = usual._replace(message_queue=row.queue, first_queue_offset=queue_offset)
    if other is None:
        return stored
    return stored._replace(
        acknowledged_level=_LEVELS[other.acknowledged_level],
        store_timestamp_ms=timestamp_ms(other.store_time),
        duplicate=other.duplicate,
    )


def _results_of_fresh(
    sent: SentRows, counts: Sequence[int], places: _Places, usual: StoredRow
) -> list[SendResult]:
    """The results of all messages that did not come encoded, if they are stored as usual.

    Made once for all rows: made for each, they take longer than all else where rows are small.
    """
    encoded, unique_ids = sent.encoded, sent.unique_ids
    if encoded is None or unique_ids is None:
        return []
    before = len(counts) - len(encoded.counts)
    rows, own_counts = sent.rows[before:], counts[before:]
    firsts = places.queue_offsets[before:]
    log_offsets: Iterable[int] = places.log_offsets[before:]
    if places.record_offsets:
        log_offsets = places.record_offsets[sum(counts[:before]) :]
    elif len(encoded.sizes) > len(rows):
        log_offsets = chain.from_iterable(_starts_of_rows(encoded, log_offsets))
    return send_results(
        chain.from_iterable(map(repeat, [row.queue for row in rows], own_counts)),
        chain.from_iterable(map(range, firsts, map(add, firsts, own_counts))),
        log_offsets,
        unique_ids.texts(),
        acknowledged_level=usual.acknowledged_level,
        store_timestamp_ms=usual.store_timestamp_ms,
        broker_address=usual.broker_address,
        duplicate=False,
    )


def _starts_of_rows(encoded: EncodedRows, log_offsets: Iterable[int]) -> Iterator[Iterable[int]]:
    """The commit-log offsets of the records of each row, whose records follow one another."""
    end = 0
    for count, log_offset in zip(encoded.counts, log_offsets, strict=True):
        begin, end = end, end + count
        yield accumulate(encoded.sizes[begin : end - 1], initial=log_offset)


def _settle_table(row: Row, stored: StoredRow, log_offsets: NDArray[np.int64]) -> None:
    if row.messages and row.unique_ids is not None:
        row.settle(stored, log_offsets.tolist(), row.unique_ids.texts())
    else:
        row.settle_whole(stored, log_offsets)


def _offsets(sizes: NDArray[np.int32], first: int) -> NDArray[np.int64]:
    """The commit-log offsets of records that follow one another."""
    return np.cumsum(sizes, dtype=np.int64) - sizes + first


def _places(result: AppendTableResult, row_count: int, record_count: int) -> _Places:
    """Read where rows were stored.

    Raises:
        ValueError: The result counts other rows or records.
    """
    queue_offsets = int64s_of(result.first_queue_offsets)
    log_offsets = int64s_of(result.first_commit_log_offsets)
    record_offsets = int64s_of(result.commit_log_offsets) if result.commit_log_offsets else []
    if not len(queue_offsets) == len(log_offsets) == row_count:
        text = f"{len(queue_offsets)} queue offsets and {len(log_offsets)} commit-log offsets"
        raise ValueError(f"{text} in the answer to a table of {row_count} rows")
    if record_offsets and len(record_offsets) != record_count:
        text = f"{len(record_offsets)} offsets of records"
        raise ValueError(f"{text} in the answer to a table of {record_count} records")
    return _Places(queue_offsets, log_offsets, record_offsets)


SPANS_MAX: Final = 16
"""The most spans of one call that are sent to a broker."""

_TRACE_PARENT_LENGTH: Final = 55
_SAMPLED_DIGITS: Final = "13579bdf"
"""The last digit of a trace context whose lowest bit, "sampled", is set."""


def note_span(row: Row, message: Message) -> None:
    """Note the span in which a message was sent, if that span is sampled."""
    trace_parent = message.properties.get(TRACE_PARENT)
    if (
        trace_parent
        and len(trace_parent) == _TRACE_PARENT_LENGTH
        and trace_parent[-1] in _SAMPLED_DIGITS
        and len(row.trace_parents) < SPANS_MAX
        and trace_parent.isascii()
        and trace_parent not in row.trace_parents
    ):
        row.trace_parents += (trace_parent,)


def trace_parents_of(rows: Iterable[Row]) -> list[str]:
    """Collect the trace contexts that a broker gets with these rows."""
    found = dict.fromkeys(span for row in rows if row.trace_parents for span in row.trace_parents)
    return list(islice(found, SPANS_MAX)) if found else []
