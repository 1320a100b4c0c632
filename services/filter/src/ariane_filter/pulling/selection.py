"""Filtering of a broker's answer for a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import PullRecordsResponse, QueueRecords
from ariane_filter.pulling.verdicts import verdicts_of
from ariane_filter.running.running_filter import RunningFilter
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc.error_status import status_of

_SIZE: Final = np.dtype("<i4")


async def selected(
    answer: PullRecordsResponse, filters: Mapping[str, RunningFilter]
) -> PullRecordsResponse:
    """The answer without the messages that the filters leave out.

    Positions advance past messages that are left out. If a filter has no verdict on a record, its
    queue ends before the record; if that is the first one, the queue has the error and does not
    advance.

    Args:
        answer: The broker's answer.
        filters: The filters by topic; other topics are unchanged.

    Raises:
        ServiceError: A filter does not run.
    """
    asked: defaultdict[str, list[QueueRecords]] = defaultdict(list)
    for queue in answer.queues:
        if queue.topic not in filters:
            continue
        queue.ClearField("replica")  # There is no filter.
        if queue.records:
            asked[queue.topic].append(queue)
    if not asked:
        return answer
    left_out: list[QueueRecords] = []
    for topic, queues in asked.items():
        left_out += await _select(queues, filters[topic])
    gone = set(map(id, left_out))
    return PullRecordsResponse(queues=[queue for queue in answer.queues if id(queue) not in gone])


async def _select(queues: list[QueueRecords], running: RunningFilter) -> Iterable[QueueRecords]:
    """Apply a filter to queues; return queues to leave out of the answer."""
    sizes = [np.frombuffer(queue.record_sizes, _SIZE) for queue in queues]
    records = b"".join([queue.records for queue in queues])
    verdicts = await verdicts_of(running, records, np.concatenate(sizes))
    judged = len(verdicts.mask)
    unjudged = []
    begins = accumulate(map(len, sizes), initial=0)
    for queue, queue_sizes, begin in zip(queues, sizes, begins, strict=False):
        end = begin + len(queue_sizes)
        if judged >= end:
            _keep(queue, queue_sizes, verdicts.mask[begin:end])
        elif judged > begin:
            mask = verdicts.mask[begin:judged]
            queue.next_queue_offset = _offset_at(queue, queue_sizes, len(mask))
            _keep(queue, queue_sizes, mask)
        elif judged == begin and verdicts.stop is not None:
            _stop_at_first(queue, queue_sizes, verdicts.stop)
        else:
            unjudged.append(queue)
    return unjudged


def _keep(queue: QueueRecords, sizes: NDArray[np.int32], mask: NDArray[np.bool_]) -> None:
    """Remove records that the mask excludes, and all behind the mask."""
    judged = len(mask)
    if judged == len(sizes) and mask.all():
        return
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[:judged], dtype=np.int64)))
    begins, stops = ends[edges[::2]].tolist(), ends[edges[1::2]].tolist()
    queue.records = b"".join(map(queue.records.__getitem__, map(slice, begins, stops)))
    queue.record_sizes = sizes[:judged][mask].tobytes()


def _offset_at(queue: QueueRecords, sizes: NDArray[np.int32], place: int) -> int:
    """The queue offset of a record."""
    begin = int(sizes[:place].sum())
    record = queue.records[begin : begin + int(sizes[place])]
    return decode_columns(record, sizes[place : place + 1]).message(0).queue_offset


def _stop_at_first(queue: QueueRecords, sizes: NDArray[np.int32], stop: ServiceError) -> None:
    """Set the error of a queue that does not advance; with the message, if that is at fault."""
    queue.next_queue_offset = _offset_at(queue, sizes, 0)
    queue.error.CopyFrom(status_of(stop))
    to_blame = "queue_offset" in stop.metadata
    queue.records = queue.records[: int(sizes[0])] if to_blame else b""
    queue.record_sizes = sizes[:1].tobytes() if to_blame else b""
