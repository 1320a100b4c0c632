"""Rows of an append, one by one, for tests: a table says the same by column."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol
from zlib import crc32

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsRequest,
    AppendRecordsResponse,
    AppendTable,
    AppendTableResult,
    ProducerSequence,
)

_NOWHERE = -1


class Block(Protocol):
    """Records of one topic with their columns, as the encoders of ``ariane_record`` make them."""

    topics: Sequence[str]
    records: Any
    sizes: Any
    tag_codes: Any
    key_counts: Any
    key_hashes: Any
    crc32: int


@dataclass(slots=True, kw_only=True)
class AppendRow:
    """A row of a table, by itself; its columns are named as in ``AppendTable``."""

    topic: str = ""
    queue_id: int = 0
    records: bytes = b""
    record_sizes: bytes = b""
    tag_codes: bytes = b""
    key_counts: bytes = b""
    key_hashes: bytes = b""
    records_crc32: int = 0
    record_crc32s: bytes = b""
    sequence: ProducerSequence | None = None
    delay_level: int = 0
    delivery_times_ms: bytes = b""
    delays_ms: bytes = b""
    required_level: int = 0
    in_sync_min: int = 0
    half_group: str = ""

    @property
    def count(self) -> int:
        """How many records it says that it has."""
        return len(self.key_counts)


@dataclass(slots=True, kw_only=True)
class RowResult:
    """What became of a row."""

    error: Status | None = None
    first_queue_offset: int = 0
    first_commit_log_offset: int = 0
    record_count: int = 0
    acknowledged_level: Any = 0
    store_time: Timestamp = field(default_factory=Timestamp)
    duplicate: bool = False


@dataclass(slots=True, kw_only=True)
class AppendCall:
    """A request, row by row."""

    rows: Sequence[AppendRow]
    trace_parents: Sequence[str] = ()
    size_bytes: int = 0


def row_of(block: Block, queue_id: int = 0, **more: Any) -> AppendRow:
    """The row of a block.

    Args:
        block: Its records.
        queue_id: Its queue.
        more: Other fields of the row.
    """
    fields: dict[str, Any] = {
        "topic": block.topics[0],
        "queue_id": queue_id,
        "records": bytes(block.records),
        "record_sizes": block.sizes.astype("<i4").tobytes(),
        "tag_codes": block.tag_codes.astype("<i4").tobytes(),
        "key_counts": block.key_counts.tobytes(),
        "key_hashes": block.key_hashes.astype("<i4").tobytes(),
        "records_crc32": block.crc32,
    }
    return AppendRow(**(fields | more))


def rows_request(
    rows: Sequence[AppendRow], trace_parents: Iterable[str] = (), **changes: Any
) -> AppendRecordsRequest:
    """The request of some rows.

    Args:
        rows: The rows; all that have a sequence are of one producer.
        trace_parents: The trace contexts of their senders.
        changes: Columns that are said otherwise.
    """
    records = b"".join(row.records for row in rows)
    columns: dict[str, Any] = {
        "topics": [row.topic for row in rows],
        "queue_ids": _packed("i", [row.queue_id for row in rows]),
        "record_counts": _packed("i", [row.count for row in rows]),
        # A lone row may lie.
        "records_crc32": rows[0].records_crc32 if len(rows) == 1 else crc32(records),
    }
    for name in ("record_sizes", "tag_codes", "key_counts", "key_hashes", "record_crc32s"):
        columns[name] = b"".join(getattr(row, name) for row in rows)
    for name in ("delivery_times_ms", "delays_ms"):
        if any(getattr(row, name) for row in rows):
            columns[name] = b"".join(getattr(row, name) or bytes(8 * row.count) for row in rows)
    if any(row.delay_level for row in rows):
        columns["delay_levels"] = bytes(row.delay_level for row in rows)
    if any(row.required_level or row.in_sync_min for row in rows):
        columns["required_levels"] = bytes(row.required_level for row in rows)
        columns["in_sync_mins"] = _packed("i", [row.in_sync_min for row in rows])
    if any(row.half_group for row in rows):
        columns["half_groups"] = [row.half_group for row in rows]
    columns |= _sequences_of(rows)
    table = AppendTable(**(columns | changes))
    return AppendRecordsRequest(table=table, table_records=records, trace_parents=trace_parents)


def _sequences_of(rows: Sequence[AppendRow]) -> dict[str, Any]:
    producers = {row.sequence.producer_id for row in rows if row.sequence is not None}
    if not producers:
        return {}
    (producer_id,) = producers
    nothing = ProducerSequence(first_sequence=_NOWHERE)
    sequences = [row.sequence or nothing for row in rows]
    return {
        "producer_id": producer_id,
        "producer_epochs": _packed("i", [each.producer_epoch for each in sequences]),
        "first_sequences": _packed("q", [each.first_sequence for each in sequences]),
    }


def call_of(request: AppendRecordsRequest) -> AppendCall:
    """The rows of a request.

    Raises:
        AssertionError: Its columns do not fit together.
    """
    table, records = request.table, request.table_records
    count = len(table.topics)
    record_counts = _of_rows("i", table.record_counts, count)
    sizes = _numbers("i", table.record_sizes)
    firsts = [0, *accumulate(record_counts)]
    places = [0, *accumulate(sizes)]
    keys = [0, *accumulate(table.key_counts)]
    _require((firsts[-1], places[-1]) == (len(sizes), len(records)), "sizes")
    _require(crc32(records) == table.records_crc32, "checksum")
    _require(len(table.record_crc32s) in {0, 4 * len(sizes)}, "checksums of records")
    columns: dict[str, Any] = {
        "queue_id": _of_rows("i", table.queue_ids, count),
        "delay_level": _of_rows("B", table.delay_levels, count),
        "required_level": _of_rows("B", table.required_levels, count),
        "in_sync_min": _of_rows("i", table.in_sync_mins, count),
        "half_group": table.half_groups or [""] * count,
    }
    epochs = _of_rows("i", table.producer_epochs, count)
    first_sequences = _of_rows("q", table.first_sequences, count)
    rows = []
    for row, topic in enumerate(table.topics):
        begin, end = firsts[row], firsts[row + 1]
        words, longs = slice(4 * begin, 4 * end), slice(8 * begin, 8 * end)
        own = records[places[begin] : places[end]]
        one = AppendRow(
            **{name: column[row] for name, column in columns.items()},
            topic=topic,
            records=own,
            record_sizes=table.record_sizes[words],
            tag_codes=table.tag_codes[words],
            key_counts=table.key_counts[begin:end],
            key_hashes=table.key_hashes[4 * keys[begin] : 4 * keys[end]],
            records_crc32=crc32(own),
            record_crc32s=table.record_crc32s[words],
        )
        for name in ("delivery_times_ms", "delays_ms"):
            column = getattr(table, name)
            _require(len(column) in {0, 8 * len(sizes)}, name)
            if any(column[longs]):
                setattr(one, name, column[longs])
        if table.producer_id and first_sequences[row] != _NOWHERE:
            one.sequence = ProducerSequence(
                producer_id=table.producer_id,
                producer_epoch=epochs[row],
                first_sequence=first_sequences[row],
            )
        rows.append(one)
    return AppendCall(rows=rows, trace_parents=request.trace_parents, size_bytes=request.ByteSize())


def results_of(answer: AppendRecordsResponse, counts: Sequence[int]) -> list[RowResult]:
    """What became of each row, of so many records each."""
    table = answer.table_result
    places = zip(
        _numbers("q", table.first_queue_offsets),
        _numbers("q", table.first_commit_log_offsets),
        counts,
        strict=True,
    )
    results = [
        RowResult(
            first_queue_offset=queue_offset,
            first_commit_log_offset=log_offset,
            record_count=count,
            acknowledged_level=table.acknowledged_level,
            store_time=table.store_time,
        )
        if queue_offset != _NOWHERE
        else RowResult()
        for queue_offset, log_offset, count in places
    ]
    others = [row.row for row in table.rows]
    _require(others == sorted(set(others)), "rows that are not as the others")
    for row in table.rows:
        result = results[row.row]
        result.error = row.error if row.HasField("error") else None
        result.store_time = row.store_time
        result.duplicate, result.acknowledged_level = row.duplicate, row.acknowledged_level
    return results


def table_result_of(results: Sequence[RowResult]) -> AppendTableResult:
    """The answer that says these results."""
    usual = next((each for each in results if each.error is None), RowResult())
    offsets = [_NOWHERE if each.error else each.first_queue_offset for each in results]
    places = [_NOWHERE if each.error else each.first_commit_log_offset for each in results]
    table = AppendTableResult(
        first_queue_offsets=_packed("q", offsets),
        first_commit_log_offsets=_packed("q", places),
        acknowledged_level=usual.acknowledged_level,
        store_time=usual.store_time,
    )
    for row, each in enumerate(results):
        if each.error is not None:
            table.rows.add(row=row, error=each.error)
        elif each.duplicate or each.store_time != usual.store_time:
            table.rows.add(
                row=row,
                duplicate=each.duplicate,
                acknowledged_level=each.acknowledged_level,
                store_time=each.store_time,
            )
    return table


def _packed(kind: str, numbers: Iterable[int]) -> bytes:
    column = array(kind, numbers)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _numbers(kind: str, column: bytes) -> list[int]:
    numbers = array(kind, column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def _of_rows(kind: str, column: bytes, count: int) -> list[int]:
    numbers = _numbers(kind, column) or [0] * count
    _require(len(numbers) == count, "a column of rows")
    return numbers


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise AssertionError(f"{what}: they do not fit the table")
