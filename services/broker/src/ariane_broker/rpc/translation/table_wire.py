"""Tables on the wire: the rows of a request as columns, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice, repeat
from struct import pack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendRowResult, AppendTable, AppendTableResult
from ariane_broker.append.rows import Outcome, Rows, RowTerms
from ariane_broker.delay.delay import Delay, DelayLevel, Delays, DeliveryTimes
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.wire_time import set_time
from ariane_record import ProducerSequence, RecordTable
from ariane_record.layout import ByteBuffer
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.error_status import status_of
from ariane_storage.log.records.fields import Int64s

UINT8: Final = np.dtype(np.uint8)
INT32: Final = np.dtype("<i4")
_UINT32: Final = np.dtype("<u4")
INT64: Final = np.dtype("<i8")
_FEW: Final = 64
_IN_NO_STREAM: Final = -1
_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


def rows_of(table: AppendTable, records: ByteBuffer) -> Rows:
    """The rows of a table, refused if its columns do not fit together.

    Args:
        table: The table.
        records: Its records.
    """
    topics = list(table.topics)
    count = len(topics)
    try:
        queue_ids = _numbers_of(table.queue_ids, INT32, "queue ids", count)
        counts = _counts_of(table, count)
        record_count = sum(counts)
        key_counts = column_of(table.key_counts, UINT8, "key counts", record_count)
        key_count = (
            sum(table.key_counts) if record_count <= _FEW else int(key_counts.sum(dtype=np.int64))
        )
        crcs = table.record_crc32s
        return Rows(
            topics,
            queue_ids,
            RecordTable(
                topics=topics,
                counts=counts,
                pieces=(records,),
                sizes=column_of(table.record_sizes, INT32, "record sizes", record_count),
                tag_codes=column_of(table.tag_codes, INT32, "tag codes", record_count),
                key_counts=key_counts,
                key_hashes=column_of(table.key_hashes, INT32, "key hashes", key_count),
                crc32=table.records_crc32,
                record_crcs=column_of(crcs, _UINT32, "record checksums", record_count)
                if crcs
                else None,
            ),
            _sequences_of(table, count),
            _terms_of(table, counts),
        )
    except ValueError as error:
        return Rows.refused(topics, block_corrupted(-1, f"its table: {error}"))


def _counts_of(table: AppendTable, count: int) -> Sequence[int]:
    counts = _numbers_of(table.record_counts, INT32, "record counts", count)
    if not counts or min(counts) < 1:
        raise ValueError("a row has no records, or there is no row")
    return counts


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
    producer_id = table.producer_id
    in_use = count if producer_id else 0
    epochs = _numbers_of(table.producer_epochs, INT32, "producer epochs", in_use)
    firsts = _numbers_of(table.first_sequences, INT64, "first sequences", in_use)
    if not in_use:
        return (None,) * count
    sequences = list(
        map(_as_sequence, zip(repeat(producer_id, count), epochs, firsts, strict=True))
    )
    if _IN_NO_STREAM not in firsts:
        return sequences
    return [each if each.first_sequence != _IN_NO_STREAM else None for each in sequences]


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
    columns = zip(
        _numbers_of(levels, UINT8, "delay levels", count) if levels else repeat(0, count),
        _numbers_of(required, UINT8, "required levels", count) if required else repeat(0, count),
        _numbers_of(in_sync, INT32, "in-sync minima", count) if in_sync else repeat(0, count),
        halves or repeat("", count),
        map(slice, edges, edges[1:]),
        strict=True,
    )
    times_ms = column_of(times, INT64, "delivery times", edges[-1]) if times else None
    delays_ms = column_of(delays, INT64, "delays", edges[-1]) if delays else None
    return [
        _terms_of_row(
            _delay_of(
                level,
                None if times_ms is None else times_ms[of_row],
                None if delays_ms is None else delays_ms[of_row],
            ),
            required_level,
            in_sync_min,
            half_group or None,
        )
        for level, required_level, in_sync_min, half_group, of_row in columns
    ]


def _terms_of_row(
    delay: Delay | None, required_level: int, in_sync_min: int, half_group: str | None
) -> RowTerms:
    try:
        return RowTerms(delay, demand_of(required_level, in_sync_min), half_group)
    except ServiceError as refusal:
        return RowTerms(refusal=refusal)


def _delay_of(level: int, times_ms: Int64s | None, delays_ms: Int64s | None) -> Delay | None:
    """When the records of a row are to be delivered.

    Raises:
        ValueError: It says so twice.
    """
    delays: list[Delay] = [DelayLevel(level)] if level else []
    if times_ms is not None and times_ms.any():
        delays.append(DeliveryTimes(times_ms))
    if delays_ms is not None and delays_ms.any():
        delays.append(Delays(delays_ms))
    if len(delays) > 1:
        raise ValueError("a row has two of a delay level, delivery times and delays")
    return delays[0] if delays else None


def fill_result(
    outcomes: Sequence[Outcome], record_counts: Sequence[int], result: AppendTableResult
) -> None:
    """Fill in what became of the rows of a table.

    Args:
        outcomes: Their outcomes, in order.
        record_counts: How many records each row has.
        result: Filled in, field by field: that costs half as much as to make and copy one.
    """
    queue_offsets: list[int] = []
    commit_log_offsets: list[int] = []
    usual, are_resized = None, False
    for outcome in outcomes:
        appended = outcome.appended
        queue_offsets += (-1,) if appended is None else appended.first_queue_offsets
        commit_log_offsets += (-1,) if appended is None else appended.edges[:-1]
        are_resized |= outcome.resized
        if usual is None and appended is not None and not (outcome.error or outcome.duplicate):
            usual = outcome
            result.acknowledged_level = LEVELS[outcome.level]
            set_time(result.store_time, appended.store_timestamp_ms)
    result.first_queue_offsets = pack(f"<{len(queue_offsets)}q", *queue_offsets)
    result.first_commit_log_offsets = pack(f"<{len(commit_log_offsets)}q", *commit_log_offsets)
    if len(outcomes) > 1 or usual is None:
        row = 0
        for outcome in outcomes:
            behind = row + outcome.row_count
            if not _is_as(outcome, usual):
                for each in range(row, behind):
                    _fill_row(outcome, result.rows.add(row=each))
            row = behind
    if are_resized:
        starts = list(_starts_of(outcomes, record_counts))
        result.commit_log_offsets = pack(f"<{len(starts)}q", *starts)


def _is_as(outcome: Outcome, usual: Outcome | None) -> bool:
    """Whether nothing but the places of rows differ from those of the usual ones."""
    return outcome is usual or (
        usual is not None
        and usual.appended is not None
        and outcome.appended is not None
        and not (outcome.error or outcome.duplicate)
        and outcome.level is usual.level
        and outcome.appended.store_timestamp_ms == usual.appended.store_timestamp_ms
    )


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
