"""Tables on the wire: the rows of a request as columns, and what became of them.

Many rows become the rows of a ``BlockTable``. Few records, and rows with a delay, a demand or a
half message, are cut out row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendRowResult, AppendTable, AppendTableResult
from ariane_broker.append.batch_check import Batch
from ariane_broker.append.batch_outcome import BatchOutcome, TableOutcomes
from ariane_broker.append.table_batches import TableBatches
from ariane_broker.delay.delay import Delay, DelayLevel, Delays, DeliveryTimes
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.log.promise import Demand
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.wire_time import set_time, time_of
from ariane_record import ProducerSequence, RecordBlock
from ariane_record.checksums.checksum import crc32
from ariane_record.layout import ByteBuffer
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.error_status import status_of
from ariane_storage.log.records.fields import Int64s
from ariane_storage.writing.block_table import BlockTable
from ariane_storage.writing.few_records import FEW

_INT32: Final = np.dtype("<i4")
_INT64: Final = np.dtype("<i8")
_UINT32: Final = np.dtype("<u4")
_DAMAGED: Final = "its checksum differs: damaged on the way"
_IN_NO_STREAM: Final = -1
_as_sequence: Final[Callable[[tuple[int, int, int]], ProducerSequence]] = partial(
    tuple.__new__, ProducerSequence
)


def table_batches(
    table: AppendTable, records: ByteBuffer, producer_group: str
) -> list[Batch] | TableBatches:
    """The batches of a table.

    Args:
        table: The table.
        records: Its records.
        producer_group: The group of its producer.

    Returns:
        All of them; single refused batches if the columns do not fit together.
    """
    try:
        blocks = _blocks_of(table, records)
        more = _more_of(table, blocks, producer_group)
    except ValueError as error:
        refusal = block_corrupted(-1, f"its table: {error}")
        return [Batch(None, topic, 0, refusal) for topic in table.topics]
    if more is not None or len(blocks) == 1 or len(blocks.sizes) <= FEW:
        return _batches_of(blocks, more)
    return TableBatches(blocks, partial(_batches_of, blocks))


def record_counts_of(table: AppendTable) -> list[int]:
    """How many records each row of a table has; of a broken column only what can be read."""
    column = table.record_counts
    counts: list[int] = np.frombuffer(column[: len(column) // 4 * 4], _INT32).tolist()
    return counts


class _MoreOfRow(NamedTuple):
    """What a row says that most do not."""

    delay: Delay | None
    demand: Demand | ServiceError | None
    half_of: str | None


_NO_MORE: Final = _MoreOfRow(None, None, None)


def _more_of(
    table: AppendTable, blocks: BlockTable, producer_group: str
) -> list[_MoreOfRow] | None:
    """What rows say beside their records; None if they say nothing.

    Raises:
        ValueError: The columns do not fit together.
    """
    levels, times, delays = table.delay_levels, table.delivery_times_ms, table.delays_ms
    required, in_sync, halves = table.required_levels, table.in_sync_mins, table.half_flags
    if not (levels or times or delays or required or in_sync or halves):
        return None
    count, record_count = len(blocks), len(blocks.sizes)
    level_of = _numbers(levels, np.dtype(np.uint8), "delay levels", count)
    required_of = _numbers(required, np.dtype(np.uint8), "required levels", count)
    in_sync_of = _numbers(in_sync, _INT32, "in-sync minima", count)
    half_of = _numbers(halves, np.dtype(np.uint8), "half flags", count)
    times_ms = _column(times, _INT64, "delivery times", record_count) if times else None
    delays_ms = _column(delays, _INT64, "delays", record_count) if delays else None
    return [
        _MoreOfRow(
            _delay_of(
                level,
                None if times_ms is None else times_ms[each],
                None if delays_ms is None else delays_ms[each],
            ),
            _demand_of(level_wanted, in_sync_min),
            producer_group if half else None,
        )
        for level, level_wanted, in_sync_min, half, each in zip(
            level_of, required_of, in_sync_of, half_of, _slices(blocks.edges), strict=True
        )
    ]


def _numbers(column: bytes, dtype: np.dtype[Any], name: str, count: int) -> list[int]:
    numbers: list[int] = _column(column, dtype, name, count).tolist() if column else [0] * count
    return numbers


def _delay_of(level: int, times_ms: Int64s | None, delays_ms: Int64s | None) -> Delay | None:
    """When the records of a row are to be delivered.

    Raises:
        ValueError: It says so twice.
    """
    delay: list[Delay] = [DelayLevel(level)] if level else []
    if times_ms is not None and times_ms.any():
        delay.append(DeliveryTimes(times_ms))
    if delays_ms is not None and delays_ms.any():
        delay.append(Delays(delays_ms))
    if len(delay) > 1:
        raise ValueError("a row has two of a delay level, delivery times and delays")
    return delay[0] if delay else None


def _demand_of(required_level: int, in_sync_min: int) -> Demand | ServiceError | None:
    try:
        return demand_of(required_level, in_sync_min)
    except ServiceError as refusal:
        return refusal


def table_result(
    outcomes: Sequence[BatchOutcome], record_counts: Sequence[int]
) -> AppendTableResult:
    """What became of the rows of a table.

    Args:
        outcomes: The outcome of each.
        record_counts: How many records each has.
    """
    if isinstance(outcomes, TableOutcomes) and outcomes.error is None:
        appended = outcomes.appended
        return AppendTableResult(
            first_queue_offsets=_int64s(appended.first_queue_offsets),
            first_commit_log_offsets=_int64s(appended.commit_log_edges[:-1]),
            acknowledged_level=LEVELS[outcomes.level],
            store_time=time_of(appended.store_timestamp_ms),
        )
    places = [outcome.appended for outcome in outcomes]
    result = AppendTableResult(
        first_queue_offsets=_int64s([-1 if at is None else at.first_queue_offset for at in places]),
        first_commit_log_offsets=_int64s(
            [-1 if at is None else at.first_commit_log_offset for at in places]
        ),
    )
    usual = next(filter(_is_stored_now, outcomes), None)
    if usual is not None and usual.appended is not None:
        result.acknowledged_level = LEVELS[usual.level]
        set_time(result.store_time, usual.appended.store_timestamp_ms)
    for row, outcome in enumerate(outcomes):
        if not _is_as(outcome, usual):
            _tell_row(outcome, result.rows.add(row=row))
    if any(outcome.resized for outcome in outcomes):
        result.commit_log_offsets = b"".join(
            _int64s([-1] * count if at is None else at.commit_log_offsets)
            for at, count in zip(places, record_counts, strict=True)
        )
    return result


def _is_stored_now(outcome: BatchOutcome) -> bool:
    return outcome.appended is not None and outcome.error is None and not outcome.duplicate


def _is_as(outcome: BatchOutcome, usual: BatchOutcome | None) -> bool:
    """Whether nothing but the place of a row differs from that of the usual one."""
    at = outcome.appended
    return outcome is usual or (
        usual is not None
        and usual.appended is not None
        and at is not None
        and outcome.error is None
        and not outcome.duplicate
        and outcome.level is usual.level
        and at.store_timestamp_ms == usual.appended.store_timestamp_ms
    )


def _tell_row(outcome: BatchOutcome, result: AppendRowResult) -> None:
    if outcome.error is not None:
        result.error.CopyFrom(status_of(outcome.error))
    if outcome.appended is not None:
        result.duplicate = outcome.duplicate
        result.acknowledged_level = LEVELS[outcome.level]
        set_time(result.store_time, outcome.appended.store_timestamp_ms)


def _int64s(numbers: Int64s | Sequence[int]) -> bytes:
    return np.asarray(numbers, _INT64).tobytes()


def _blocks_of(table: AppendTable, records: ByteBuffer) -> BlockTable:
    """Convert a table for the store.

    Raises:
        ValueError: The columns do not fit together.
    """
    topics = list(table.topics)
    count = len(topics)
    if not count:
        raise ValueError("it has no batches")
    queue_ids = _column(table.queue_ids, _INT32, "queue ids", count)
    counts = _column(table.record_counts, _INT32, "record counts", count).astype(np.int64)
    if int(counts.min()) < 1:
        raise ValueError("a batch has no records")
    edges = np.zeros(count + 1, np.int64)
    counts.cumsum(out=edges[1:])
    record_count = int(edges[-1])
    key_counts = _column(table.key_counts, np.dtype(np.uint8), "key counts", record_count)
    return BlockTable(
        topics=topics,
        queue_ids=queue_ids.tolist(),
        records=records,
        crc=table.records_crc32,
        sequences=_sequences_of(table, count),
        counts=counts,
        key_hash_counts=np.add.reduceat(key_counts, edges[:-1], dtype=np.int64),
        sizes=_column(table.record_sizes, _INT32, "record sizes", record_count),
        tag_codes=_column(table.tag_codes, _INT32, "tag codes", record_count),
        key_counts=key_counts,
        key_hashes=_column(
            table.key_hashes, _INT32, "key hashes", int(key_counts.sum(dtype=np.int64))
        ),
        record_crcs=_column(table.record_crc32s, _UINT32, "record checksums", record_count)
        if table.record_crc32s
        else None,
    )


def _sequences_of(table: AppendTable, count: int) -> Sequence[ProducerSequence | None]:
    """The numbers of the batches in their producer's streams."""
    in_use = count if table.producer_id else 0
    epochs = _column(table.producer_epochs, _INT32, "producer epochs", in_use)
    firsts = _column(table.first_sequences, _INT64, "first sequences", in_use)
    if not in_use:
        return [None] * count
    numbers = zip(repeat(table.producer_id, count), epochs.tolist(), firsts.tolist(), strict=True)
    sequences = list(map(_as_sequence, numbers))
    if _IN_NO_STREAM not in firsts:
        return sequences
    return [each if each.first_sequence != _IN_NO_STREAM else None for each in sequences]


def _column(column: bytes, dtype: np.dtype[Any], name: str, count: int) -> NDArray[Any]:
    width = dtype.itemsize
    if len(column) != width * count:
        raise ValueError(f"{len(column)} bytes of {name}, where {count} take {width * count}")
    return np.frombuffer(column, dtype)


def _batches_of(table: BlockTable, more: Sequence[_MoreOfRow] | None = None) -> list[Batch]:
    """Cut out each batch."""
    records = table.records
    rows = zip(table.topics, table.queue_ids, table.sequences, strict=True)
    rule = ""
    if int(table.sizes.min()) < 0 or not table.are_sizes_whole:
        rule = f"the sizes of its table do not add up to its {len(records)} bytes"
    elif len(table) > 1 and crc32(records) != table.crc:
        rule = _DAMAGED  # Of a single row, the store sees to it.
    if rule:
        refusal = block_corrupted(-1, rule)
        return [Batch(None, topic, queue_id, refusal, each) for topic, queue_id, each in rows]
    edges_of = zip(
        _slices(table.edges),
        _slices(_edges(table.block_sizes)),
        _slices(_edges(table.key_hash_counts)),
        strict=True,
    )
    view = memoryview(records)
    batches = []
    whole = table.crc if len(table) == 1 else None
    crcs = table.record_crcs
    said: Iterable[_MoreOfRow] = more or repeat(_NO_MORE, len(table))
    for (topic, queue_id, sequence), (each, piece, keys), (delay, demand, half_of) in zip(
        rows, edges_of, said, strict=True
    ):
        if isinstance(demand, ServiceError):
            batches.append(Batch(None, topic, queue_id, demand, sequence))
            continue
        block = RecordBlock(
            topic=topic,
            records=view[piece],
            sizes=table.sizes[each],
            tag_codes=table.tag_codes[each],
            key_counts=table.key_counts[each],
            key_hashes=table.key_hashes[keys],
            crc32=crc32(view[piece]) if whole is None else whole,
            record_crcs=None if crcs is None else crcs[each],
        )
        batches.append(
            Batch(
                block,
                topic,
                queue_id,
                sequence=sequence,
                delay=delay,
                demand=demand,
                half_of=half_of,
            )
        )
    return batches


def _edges(widths: Sequence[int] | Int64s) -> Int64s:
    return np.concatenate(([0], np.cumsum(widths, dtype=np.int64)))


def _slices(edges: Int64s) -> list[slice]:
    return [slice(begin, end) for begin, end in pairwise(edges.tolist())]
