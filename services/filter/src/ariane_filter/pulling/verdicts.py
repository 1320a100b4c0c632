"""A filter's verdicts on the records of a pull, up to the first without a verdict."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.pulling.pieces import pieces
from ariane_filter.refusals import refusal_of
from ariane_filter.running.running_filter import RunningFilter
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_servicekit import ServiceError


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of a filter."""

    mask: NDArray[np.bool_]
    """Whether to deliver each record, from the first on: bool[judged]."""
    stop: ServiceError | None = None
    """Why the next record has no verdict; None if all have one."""


NONE_YET: Final = np.zeros(0, np.bool_)


async def verdicts_of(running: RunningFilter, records: bytes, sizes: NDArray[np.int32]) -> Verdicts:
    """Ask a filter about records; the verdicts end before a record that it cannot judge.

    Args:
        running: The filter.
        records: Records back to back.
        sizes: Bytes of each.

    Raises:
        ServiceError: It does not run: it is quarantined or not a filter, or there is no jail.
    """
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    masks: list[NDArray[np.bool_]] = []
    for first, last in pieces(sizes):
        found = await _piece(running, records[ends[first] : ends[last]], sizes[first:last])
        masks.append(found.mask)
        if found.stop is not None:
            return Verdicts(np.concatenate(masks), found.stop)
    return Verdicts(np.concatenate(masks) if masks else NONE_YET)


async def _piece(running: RunningFilter, records: bytes, sizes: NDArray[np.int32]) -> Verdicts:
    try:
        return Verdicts(await running.judge(records, sizes))
    except ServiceError as error:
        if error.reason != ErrorReason.ERROR_REASON_FILTER_FAILED:
            raise
        return Verdicts(NONE_YET, error)
    except RecordCorrupted as error:
        text = str(error)
    # If the records are corrupted, it is not the filter's fault: check them outside the filter.
    damaged = await asyncio.to_thread(_first_damaged, records, sizes)
    if damaged is None:
        failure = await running.blame(f"it cannot read a message that can be read: {text}")
        return Verdicts(NONE_YET, refusal_of(failure, str(running.version)))
    place, stop = damaged
    before = NONE_YET
    if place:
        judged = await _piece(running, records[: int(sizes[:place].sum())], sizes[:place])
        before, stop = judged.mask, judged.stop or stop
    return Verdicts(before, stop)


def _first_damaged(records: bytes, sizes: NDArray[np.int32]) -> tuple[int, ServiceError] | None:
    """The first record whose body cannot be decompressed, and its error."""
    columns = decode_columns(records, sizes)
    for place in columns.compressed_positions().tolist():
        try:
            list(columns.decompressed_bodies(np.array([place], np.int64)))
        except RecordCorrupted as error:
            message = columns.message(place)
            queue_id, queue_offset = message.queue_id, message.queue_offset
            return place, ServiceError(
                ErrorReason.ERROR_REASON_BODY_DAMAGED,
                f"topic {message.topic!r}, queue {queue_id}: the message at {queue_offset} is "
                f"before a filter that looks at bodies, and has a damaged one: {error.reason}",
                {
                    "topic": message.topic,
                    "queue_id": queue_id,
                    "queue_offset": queue_offset,
                    "cause": error.reason,
                },
            )
    return None
