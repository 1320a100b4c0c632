"""A filter's verdicts over the records of a pull, as far as it can tell."""

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
    """What a filter has decided.

    Attributes:
        mask: Which records are to be delivered, from the first on: bool[judged].
        stop: Why the record behind those has no verdict; nothing when all have one.
    """

    mask: NDArray[np.bool_]
    stop: ServiceError | None = None


NONE_YET: Final = np.zeros(0, np.bool_)


async def verdicts_of(running: RunningFilter, records: bytes, sizes: NDArray[np.int32]) -> Verdicts:
    """Ask a filter about records; what it cannot tell ends the verdicts, and is nobody's loss.

    Args:
        running: The filter.
        records: Records back to back.
        sizes: Bytes of each.

    Raises:
        ServiceError: It does not run: quarantined, no filter, or no jail.
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
        said = str(error)
    # It may be true, and then it is not the filter's fault; so it is looked at outside of it.
    damaged = await asyncio.to_thread(_first_damaged, records, sizes)
    if damaged is None:
        failure = await running.blame(f"it cannot read a message that can be read: {said}")
        return Verdicts(NONE_YET, refusal_of(failure, str(running.version)))
    place, stop = damaged
    before = NONE_YET
    if place:
        judged = await _piece(running, records[: int(sizes[:place].sum())], sizes[:place])
        before, stop = judged.mask, judged.stop or stop
    return Verdicts(before, stop)


def _first_damaged(records: bytes, sizes: NDArray[np.int32]) -> tuple[int, ServiceError] | None:
    """The first record whose body cannot be decompressed, and what is said of it."""
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
