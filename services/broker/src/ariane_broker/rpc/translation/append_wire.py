"""Appends on the wire: conversion of requests and answers from and to values of the use case.

Requests arrive as bytes. Protocol Buffers would copy the records twice, into newly allocated pages.
So the records of a large table are cut out here, and only the rest is parsed. They are copied once,
by the store into its log. Batches, which only stubs of other languages may send, are not cut.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import (
    AppendBatch,
    AppendRecordsRequest,
    AppendRecordsResponse,
    AppendResult,
)
from ariane.broker.v1.send_service_pb2 import ProducerSequence as WireSequence
from ariane_broker.append.outcome import Outcome
from ariane_broker.append.row_check import ROWS_MAX
from ariane_broker.append.rows import MoreOfRow, Rows
from ariane_broker.delay.delay import Delay, DelayLevel, Delays, DeliveryTimes
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.table_wire import fill_result, rows_of
from ariane_broker.rpc.translation.wire_time import set_time
from ariane_record import ProducerSequence, RecordTable
from ariane_record.errors import WireCorrupted
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import (
    fields_of,
    length_tag,
)
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.error_status import status_of

CUT_BYTES_MIN: Final = 192 << 10
"""Smaller requests are parsed as they are: that is faster than cutting (measured)."""

_FIELDS_MAX: Final = 64
"""The most fields of a request that is cut; no real one has as many. Each costs a step of Python; a
request with more is parsed by Protocol Buffers."""

_TABLE_RECORDS: Final = length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER)
_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")
_UINT32: Final = np.dtype("<u4")


class AppendRequest(NamedTuple):
    """A producer's request."""

    tables: Sequence[Rows]
    """Its table, or each of its batches as a table of one row."""
    trace_parents: Sequence[str]
    """Trace contexts of its senders."""
    record_counts: Sequence[int] | None = None
    """How many records each row of its table has; None for ``batches``."""


def append_request(raw: bytes) -> AppendRequest:
    """Decode a request of AppendRecords.

    Raises:
        DecodeError: The bytes are no such request.
    """
    if len(raw) >= CUT_BYTES_MIN:
        try:
            cut = _without_records(raw)
        except WireCorrupted as error:
            raise DecodeError(str(error)) from error
        if cut is not None:
            return _request_of(*cut)
    return _request_of(AppendRecordsRequest.FromString(raw))


def _without_records(raw: bytes) -> tuple[AppendRecordsRequest, ByteBuffer] | None:
    """Split a request from the records of its table; None without such, or with many fields."""
    rest: list[ByteBuffer] = []
    records: ByteBuffer | None = None
    for field in fields_of(memoryview(raw)):
        if field.tag == _TABLE_RECORDS:
            records = field.value
        else:
            rest.append(field.whole)
            if len(rest) > _FIELDS_MAX:
                return None
    return None if records is None else (AppendRecordsRequest.FromString(b"".join(rest)), records)


def _request_of(
    request: AppendRecordsRequest, table_records: ByteBuffer | None = None
) -> AppendRequest:
    """Convert a request that was parsed as a whole, or without the records of its table."""
    table = request.table
    count = len(request.batches) + len(table.topics)
    if count > ROWS_MAX:
        # The request is refused for their number; millions fit into one, so none is looked at.
        refused = Rows.refused([""] * count, block_corrupted(-1, "it is one of too many"))
        return AppendRequest([refused], request.trace_parents)
    if not request.HasField("table"):
        singles = [_row_of(batch, batch.records) for batch in request.batches]
        return AppendRequest(singles, request.trace_parents)
    if request.batches:
        refusal = field_invalid("batches", "cannot come with a table", len(request.batches))
        return AppendRequest([Rows.refused([""] * count, refusal)], request.trace_parents)
    records = request.table_records if table_records is None else table_records
    rows = rows_of(table, records)
    counts = (0,) * len(rows) if rows.table is None else rows.table.counts
    return AppendRequest([rows], request.trace_parents, counts)


def _row_of(batch: AppendBatch, records: ByteBuffer) -> Rows:
    try:
        more = MoreOfRow(_delay_of(batch), demand_of(batch.required_level, batch.in_sync_min))
        sums = batch.record_crc32s
        table = RecordTable.of(
            batch.topic,
            records,
            sizes=_int32_column(batch.record_sizes, "record sizes"),
            tag_codes=_int32_column(batch.tag_codes, "tag codes"),
            key_counts=np.frombuffer(batch.key_counts, np.uint8),
            key_hashes=_int32_column(batch.key_hashes, "key hashes"),
            crc32=batch.records_crc32,
            record_crcs=_int32_column(sums, "record checksums").view(_UINT32) if sums else None,
        )
    except ServiceError as refusal:
        return Rows.refused([batch.topic], refusal)
    except ValueError as error:
        return Rows.refused([batch.topic], block_corrupted(-1, str(error)))
    sequence = sequence_of(batch.sequence) if batch.HasField("sequence") else None
    return Rows.one(table, batch.queue_id, sequence, more if any(more) else None)


def _delay_of(batch: AppendBatch) -> Delay | None:
    """When its records are to be delivered."""
    column = batch.delivery_times_ms or batch.delays_ms
    if not column:
        return DelayLevel(batch.delay_level) if batch.delay_level else None
    if batch.delay_level or (batch.delivery_times_ms and batch.delays_ms):
        raise ValueError("it has two of a delay level, delivery times and delays")
    if len(column) % _INT64.itemsize:
        raise ValueError("the column of delivery times or delays is no multiple of 8 bytes")
    numbers = np.frombuffer(column, _INT64)
    return DeliveryTimes(numbers) if batch.delivery_times_ms else Delays(numbers)


def sequence_of(sequence: WireSequence) -> ProducerSequence:
    """The number of a batch in its producer's stream."""
    return ProducerSequence(sequence.producer_id, sequence.producer_epoch, sequence.first_sequence)


def _int32_column(column: bytes, name: str) -> NDArray[np.int32]:
    if len(column) % _INT32.itemsize:
        raise ValueError(f"the column of {name} has {len(column)} bytes, no multiple of 4")
    return np.frombuffer(column, _INT32)


def append_response(
    outcomes: Sequence[Outcome], record_counts: Sequence[int] | None = None
) -> bytes:
    """The answer to a request: an ``AppendRecordsResponse``, encoded.

    Args:
        outcomes: What became of its batches or rows.
        record_counts: As in the request.
    """
    response = AppendRecordsResponse()
    if record_counts is not None:
        fill_result(outcomes, record_counts, response.table_result)
    else:
        for outcome in outcomes:
            _fill(outcome, response.results.add())
    return response.SerializeToString()


def _fill(outcome: Outcome, result: AppendResult) -> None:
    """Fill in a new result field by field, which costs half as much as to make and copy one."""
    if outcome.error is not None:
        result.error.CopyFrom(status_of(outcome.error))
    appended = outcome.appended
    if appended is None:
        return
    result.first_queue_offset = appended.first_queue_offset
    result.first_commit_log_offset = appended.first_commit_log_offset
    result.record_count = appended.count
    result.acknowledged_level = LEVELS[outcome.level]
    set_time(result.store_time, appended.store_timestamp_ms)
    result.duplicate = outcome.duplicate


def _topics_of_batches(request: AppendRequest) -> Collection[str]:
    """Return the topics of batches, each once."""
    if request.record_counts is not None:
        return ()
    return {topic for rows in request.tables for topic in rows.topics}


def _topics_of_table(request: AppendRequest) -> Collection[str]:
    """Return the topics of a table, each once."""
    if request.record_counts is None:
        return ()
    (rows,) = request.tables
    return frozenset(rows.topics)


APPEND_NAMES: Final = MappingProxyType(
    {"batches.topic": _topics_of_batches, "table.topics": _topics_of_table}
)
"""The extractors of AppendRecords, by the path in its rule."""
