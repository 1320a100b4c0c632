"""Appends on the wire: the rows of a request, and what became of them.

Requests arrive as bytes. Protocol Buffers would copy the records twice, into newly allocated pages.
So the records of a large table are cut out here, and only the rest is parsed. They are copied once,
by the store into its log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice, repeat
from struct import pack
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsRequest,
    AppendRecordsResponse,
    AppendRowResult,
    AppendTable,
)
from ariane.broker.v1.transaction_service_pb2 import StageBatchRecordsRequest
from ariane_broker.append.row_check import ROWS_MAX
from ariane_broker.append.rows import Outcome, Rows, RowTerms
from ariane_broker.delay.delay import Delay
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.wire_time import set_time
from ariane_record import ProducerSequence, RecordTable
from ariane_record.errors import WireCorrupted
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import fields_of, length_tag
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.error_status import status_of
from ariane_storage.log.records.fields import Int64s

CUT_BYTES_MIN: Final = 192 << 10
"""Smaller requests are parsed as they are: that is faster than cutting (measured)."""

_FIELDS_MAX: Final = 64
"""The most fields of a request that is cut; no real one has as many. Each costs a step of Python; a
request with more is parsed by Protocol Buffers."""

_UINT8: Final = np.dtype(np.uint8)
INT32: Final = np.dtype("<i4")
_UINT32: Final = np.dtype("<u4")
INT64: Final = np.dtype("<i8")

_TABLE_RECORDS: Final = length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER)
_IN_NO_STREAM: Final = -1
_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


def append_request(raw: bytes) -> Rows:
    """Decode a request of AppendRecords; rows are refused if their columns do not fit together.

    Raises:
        DecodeError: The bytes are no such request.
    """
    try:
        request, records = _cut(raw)
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error
    count = len(request.table.topics)
    if count > ROWS_MAX:
        # The request is refused for their number; millions fit into one, so none is looked at.
        return Rows.refused([""] * count, block_corrupted(-1, "it is one of too many"))
    topics = list(request.table.topics)
    try:
        rows = _rows_of(topics, request.table, records)
    except ValueError as error:
        rows = Rows.refused(topics, block_corrupted(-1, f"its table: {error}"))
    rows.trace_parents = request.trace_parents
    return rows


def _cut(raw: bytes) -> tuple[AppendRecordsRequest, ByteBuffer]:
    """A request, and the records of its table; if it is large, parsed without them."""
    rest: list[ByteBuffer] = []
    records: ByteBuffer | None = None
    for field in fields_of(memoryview(raw)) if len(raw) >= CUT_BYTES_MIN else ():
        if field.tag == _TABLE_RECORDS:
            records = field.value
            continue
        rest.append(field.whole)
        if len(rest) > _FIELDS_MAX:
            records = None
            break
    if records is not None:
        return AppendRecordsRequest.FromString(b"".join(rest)), records
    request = AppendRecordsRequest.FromString(raw)
    return request, request.table_records


def _rows_of(topics: Sequence[str], table: AppendTable, records: ByteBuffer) -> Rows:
    """The rows of a table.

    Args:
        topics: The topic of each.
        table: The table.
        records: Its records.

    Raises:
        ValueError: Its columns do not fit together.
    """
    count = len(topics)
    queue_ids = _numbers_of(table.queue_ids, INT32, "queue ids", count)
    counts = _numbers_of(table.record_counts, INT32, "record counts", count)
    if min(counts, default=0) < 1:
        raise ValueError("a row has no records, or there is no row")
    return Rows(
        topics,
        queue_ids,
        table_of(table, topics, counts, records, table.record_crc32s),
        _sequences_of(table, count),
        _terms_of(table, counts),
    )


def table_of(
    columns: AppendTable | StageBatchRecordsRequest,
    topics: Sequence[str],
    counts: Sequence[int],
    records: ByteBuffer,
    crcs: bytes = b"",
) -> RecordTable:
    """Records with their columns.

    Args:
        columns: A message with the columns.
        topics: The topic of each row.
        counts: How many records each row has.
        records: The records.
        crcs: The checksum of each record; empty without.

    Raises:
        ValueError: The columns do not fit together.
    """
    count = sum(counts)
    return RecordTable(
        topics=topics,
        counts=counts,
        pieces=(records,),
        sizes=column_of(columns.record_sizes, INT32, "record sizes", count),
        tag_codes=column_of(columns.tag_codes, INT32, "tag codes", count),
        key_counts=column_of(columns.key_counts, _UINT8, "key counts", count),
        key_hashes=column_of(columns.key_hashes, INT32, "key hashes", sum(columns.key_counts)),
        crc32=columns.records_crc32,
        record_crcs=column_of(crcs, _UINT32, "record checksums", count) if crcs else None,
    )


def _numbers_of(column: bytes, dtype: np.dtype[Any], name: str, count: int) -> Sequence[int]:
    """The numbers of a column of rows; see ``column_of``."""
    if count == 1 and len(column) == dtype.itemsize:
        return (int.from_bytes(column, "little", signed=dtype.kind == "i"),)
    numbers: list[int] = column_of(column, dtype, name, count).tolist()
    return numbers


def column_of(column: bytes, dtype: np.dtype[Any], name: str, count: int) -> NDArray[Any]:
    """The numbers of a column.

    Raises:
        ValueError: It has another number of bytes than ``count`` take.
    """
    width = dtype.itemsize
    if len(column) != width * count:
        raise ValueError(f"{len(column)} bytes of {name}, where {count} take {width * count}")
    return np.frombuffer(column, dtype)


def _sequences_of(table: AppendTable, count: int) -> Sequence[ProducerSequence | None]:
    """The numbers of the rows in their producer's streams."""
    in_use = count if table.producer_id else 0
    epochs = _numbers_of(table.producer_epochs, INT32, "producer epochs", in_use)
    firsts = _numbers_of(table.first_sequences, INT64, "first sequences", in_use)
    if not in_use:
        return (None,) * count
    numbers = zip(repeat(table.producer_id), epochs, firsts, strict=False)
    return [each if each[2] != _IN_NO_STREAM else None for each in map(_as_sequence, numbers)]


def _terms_of(table: AppendTable, counts: Sequence[int]) -> Sequence[RowTerms] | None:
    """What rows ask for beside being appended; None if none of them does.

    Raises:
        ValueError: The columns do not fit together.
    """
    levels, times, delays = table.delay_levels, table.delivery_times_ms, table.delays_ms
    required, in_sync, halves = table.required_levels, table.in_sync_mins, table.half_groups
    if not (levels or times or delays or required or in_sync or halves):
        return None
    count, edges = len(counts), [0, *accumulate(counts)]
    times_ms = column_of(times, INT64, "delivery times", edges[-1]) if times else None
    delays_ms = column_of(delays, INT64, "delays", edges[-1]) if delays else None
    of_rows = list(map(slice, edges, edges[1:]))
    columns = zip(
        _numbers_of(levels, _UINT8, "delay levels", count) if levels else repeat(0, count),
        repeat(None, count) if times_ms is None else map(times_ms.__getitem__, of_rows),
        repeat(None, count) if delays_ms is None else map(delays_ms.__getitem__, of_rows),
        _numbers_of(required, _UINT8, "required levels", count) if required else repeat(0, count),
        _numbers_of(in_sync, INT32, "in-sync minima", count) if in_sync else repeat(0, count),
        halves or repeat("", count),
        strict=True,
    )
    return [_terms_of_row(*each) for each in columns]


def _terms_of_row(  # noqa: PLR0917 - the columns of a row.
    level: int,
    times_ms: Int64s | None,
    delays_ms: Int64s | None,
    required_level: int,
    in_sync_min: int,
    half_group: str,
) -> RowTerms:
    """What a row asks for.

    Raises:
        ValueError: It says twice when it is to be delivered.
    """
    delays = [Delay(level)] if level else []
    for times, after_arrival in ((times_ms, False), (delays_ms, True)):
        if times is not None and times.any():
            delays.append(Delay(0, times, after_arrival))
    if len(delays) > 1:
        raise ValueError("a row has two of a delay level, delivery times and delays")
    try:
        demand = demand_of(required_level, in_sync_min)
    except ServiceError as refusal:
        return RowTerms(refusal=refusal)
    return RowTerms(delays[0] if delays else None, demand, half_group or None)


def append_response(outcomes: Sequence[Outcome], record_counts: Sequence[int]) -> bytes:
    """The answer to a request: an ``AppendRecordsResponse``, encoded.

    Field by field: that costs half as much as to make messages and copy them.

    Args:
        outcomes: What became of its rows, in order.
        record_counts: How many records each row has.
    """
    response = AppendRecordsResponse()
    result = response.table_result
    queue_offsets: list[int] = []
    commit_log_offsets: list[int] = []
    are_resized, usual = False, None
    for outcome in outcomes:
        own, appended = None, outcome.appended
        if appended is not None and not (outcome.error or outcome.duplicate):
            own = (outcome.level, appended.store_timestamp_ms)
        if own is not None and usual is None:
            # Said once for all rows that are like this one.
            usual, result.acknowledged_level = own, LEVELS[outcome.level]
            set_time(result.store_time, own[1])
        elif own is None or own != usual:
            first = len(queue_offsets)
            for row in range(first, first + outcome.row_count):
                _fill_row(outcome, result.rows.add(row=row))
        queue_offsets += (-1,) if appended is None else appended.first_queue_offsets
        commit_log_offsets += (-1,) if appended is None else appended.edges[:-1]
        are_resized |= outcome.resized
    result.first_queue_offsets = pack(f"<{len(queue_offsets)}q", *queue_offsets)
    result.first_commit_log_offsets = pack(f"<{len(commit_log_offsets)}q", *commit_log_offsets)
    if are_resized:
        starts = list(_starts_of(outcomes, record_counts))
        result.commit_log_offsets = pack(f"<{len(starts)}q", *starts)
    return response.SerializeToString()


def _fill_row(outcome: Outcome, result: AppendRowResult) -> None:
    if outcome.error is not None:
        result.error.CopyFrom(status_of(outcome.error))
    if outcome.appended is not None:
        result.duplicate = outcome.duplicate
        result.acknowledged_level = LEVELS[outcome.level]
        set_time(result.store_time, outcome.appended.store_timestamp_ms)


def _starts_of(outcomes: Sequence[Outcome], record_counts: Sequence[int]) -> Iterator[int]:
    """The commit-log offset of each record."""
    counts = iter(record_counts)
    for outcome in outcomes:
        count = sum(islice(counts, outcome.row_count))
        yield from repeat(-1, count) if outcome.appended is None else outcome.appended.starts


def _topics_of_table(rows: Rows) -> Collection[str]:
    """Return the topics of a table, each once."""
    return frozenset(rows.topics)


APPEND_NAMES: Final = MappingProxyType({"table.topics": _topics_of_table})
"""The extractors of AppendRecords, by the path in its rule."""
