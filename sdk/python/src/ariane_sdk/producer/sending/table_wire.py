"""A table on the wire: the request of some rows, and the answer to it.

Protocol Buffers encodes the columns. It would copy the records twice, into freshly mapped pages;
here they are copied once, when all parts of the request are joined. The pieces of a row that came
encoded come together only then.

Of the spans in which the messages were sent, brokers that trace appends get the sampled ones: the
others are recorded nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from struct import pack, unpack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsRequest,
    AppendRowResult,
    AppendTable,
    AppendTableResult,
)
from ariane_record.encoding.record_table import RecordTable
from ariane_record.layout import ByteBuffer
from ariane_record.names import TRACE_PARENT
from ariane_record.single.wire_fields import (
    int32s,
    int64s,
    length_tag,
    varint,
)
from ariane_sdk.checks.delay import AFTER_DELAYS, AT_ONCE, AT_TIMES
from ariane_sdk.errors import CallError
from ariane_sdk.message import AcknowledgedLevel, Message
from ariane_sdk.net.status import error_from_status
from ariane_sdk.net.timestamps import timestamp_ms
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.send_results import StoredAs
from ariane_sdk.producer.sending.sender import AppendCall

_TABLE: Final = varint(length_tag(AppendRecordsRequest.TABLE_FIELD_NUMBER))
_TABLE_RECORDS: Final = varint(length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER))
_TRACE_PARENTS: Final = varint(length_tag(AppendRecordsRequest.TRACE_PARENTS_FIELD_NUMBER))
_LEVEL_MAX: Final = 255
"""Brokers cut higher levels to their highest one, which is far below."""

_on_wire: Final[Callable[[NDArray[Any]], bytes]] = (
    np.ndarray.tobytes if sys.byteorder == "little" else lambda column: column.byteswap().tobytes()
)
"""Encodes a column of packed numbers, little-endian."""

_NO_STREAM: Final = -1
_OFFSET_BYTES: Final = 8
_LEVELS: Final = {level.value: level for level in AcknowledgedLevel}
"""By their numbers in the contract."""


def table_request(
    rows: Sequence[Row], records: RecordTable, trace_parents: Iterable[str] = ()
) -> bytes:
    """Encode an AppendRecordsRequest.

    Args:
        rows: The rows.
        records: Their records.
        trace_parents: The trace contexts that the broker gets.
    """
    queue_ids, epochs, firsts = [], [], []
    producer_id, has_terms = 0, False
    for row in rows:
        queue_ids.append(row.queue.queue_id)
        epoch, first = 0, _NO_STREAM
        if row.sequence is not None:
            producer_id, epoch, first = row.sequence
        epochs.append(epoch)
        firsts.append(first)
        if row.kind != AT_ONCE or row.demand is not None or row.half_of:
            has_terms = True
    each = f"<{len(rows)}i"
    columns: dict[str, Any] = {
        "topics": records.topics,
        "queue_ids": pack(each, *queue_ids),
        "record_counts": pack(each, *records.counts),
        "record_sizes": _on_wire(records.sizes),
        "tag_codes": _on_wire(records.tag_codes),
        "key_counts": records.key_counts.tobytes(),
        "key_hashes": _on_wire(records.key_hashes),
        "records_crc32": records.crc32,
    }
    if records.record_crcs is not None:
        columns["record_crc32s"] = _on_wire(records.record_crcs)
    if producer_id:
        columns["producer_id"] = producer_id
        columns["producer_epochs"] = pack(each, *epochs)
        columns["first_sequences"] = pack(f"<{len(rows)}q", *firsts)
    if has_terms:
        _put_terms(columns, rows)
    # All at once: each field that is set by itself costs as much as all of a small table.
    head = AppendTable(**columns).SerializeToString()
    parents: list[ByteBuffer] = []
    for trace_parent in trace_parents:
        parents += (_TRACE_PARENTS, varint(len(trace_parent)), trace_parent.encode())
    before = _TABLE + varint(len(head))
    between = _TABLE_RECORDS + varint(sum(map(len, records.pieces)))
    return b"".join((*parents, before, head, between, *records.pieces))


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


def keep_encoded(call: AppendCall) -> None:
    """Let each row without an outcome keep its records: it is repeated as it was sent."""
    if call.encoded is None or call.unique_ids is None:
        return
    begin = 0
    for row, table in zip(call.rows[-len(call.encoded) :], call.encoded.rows(), strict=True):
        if not row.settled:
            row.table, row.unique_ids = table, call.unique_ids.part(begin, begin + table.count)
        begin += table.count


def settle_rows(call: AppendCall, result: AppendTableResult) -> list[tuple[Row, CallError]]:
    """Give the senders of a call their results.

    Returns:
        The rows that were not acknowledged, each with the reason.

    Raises:
        ValueError: The result counts other rows or records. No sender got a result.
    """
    rows, address = call.rows, call.address
    queue_offsets, log_offsets, record_offsets = _places(result, rows)
    others = {each.row: each for each in result.rows} if result.rows else {}
    usual = _how(result, address, duplicate=False)
    sizes: Sequence[int] = () if call.encoded is None else call.encoded.sizes.tolist()
    texts: Sequence[str] = () if call.unique_ids is None else call.unique_ids.texts()
    refused: list[tuple[Row, CallError]] = []
    end = record = 0
    for place, row in enumerate(rows):
        count, table, how = row.count, row.table, usual
        first, record = record, record + count
        begin, end = end, end + (count if table is None else 0)
        other = others.get(place)
        if other is not None:
            if other.HasField("error"):
                refused.append((row, error_from_status(other.error, peer=call.peer)))
                continue
            how = _how(other, address, duplicate=other.duplicate)
        starts: Any = record_offsets[first:record]
        if table is not None:
            starts = np.array(starts or _offsets(table.sizes, log_offsets[place]))
            row.settle_encoded(queue_offsets[place], starts, how)
        else:
            if not starts:
                starts = accumulate(sizes[begin : end - 1], initial=log_offsets[place])
            row.settle(queue_offsets[place], starts, texts[begin:end], how)
    return refused


def _how(result: AppendTableResult | AppendRowResult, address: str, *, duplicate: bool) -> StoredAs:
    level = _LEVELS[result.acknowledged_level]
    return level, timestamp_ms(result.store_time), address, duplicate


def _offsets(sizes: NDArray[np.int32], first: int) -> NDArray[np.int64]:
    """The commit-log offsets of records that follow one another."""
    return np.cumsum(sizes, dtype=np.int64) - sizes + first


def _places(
    result: AppendTableResult, rows: Sequence[Row]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Where rows were stored: the first queue offset of each, and the first commit-log offset.

    The third column has the commit-log offset of each record; it is empty where these follow from
    the sizes of records.

    Raises:
        ValueError: The result counts other rows or records.
    """
    queue_offsets, log_offsets = result.first_queue_offsets, result.first_commit_log_offsets
    if not len(queue_offsets) == len(log_offsets) == _OFFSET_BYTES * len(rows):
        text = f"{len(queue_offsets)} bytes of queue offsets and {len(log_offsets)} of the log's"
        raise ValueError(f"{text} in the answer to a table of {len(rows)} rows")
    each = f"<{len(rows)}q"
    record_offsets: Sequence[int] = ()
    if result.commit_log_offsets:
        record_offsets = np.frombuffer(result.commit_log_offsets, "<i8").tolist()
        record_count = sum(row.count for row in rows)
        if len(record_offsets) != record_count:
            text = f"{len(record_offsets)} offsets of records"
            raise ValueError(f"{text} in the answer to a table of {record_count} records")
    return unpack(each, queue_offsets), unpack(each, log_offsets), record_offsets


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
