"""From what the broker has answered to what a group gets."""

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
    """The answer, less what the filters leave out.

    Positions move over what is left out. Where a filter could not tell about a record, its queue
    ends before it, and when it is the first, the queue says why and stays where it is.

    Args:
        answer: As the broker gave it.
        filters: By topic; other topics go through as they are.

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
    """Leave out of queues what a filter does; returns those of which nothing is to be said."""
    sizes = [np.frombuffer(queue.record_sizes, _SIZE) for queue in queues]
    records = b"".join([queue.records for queue in queues])
    verdicts = await verdicts_of(running, records, np.concatenate(sizes))
    judged = len(verdicts.mask)
    untold = []
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
            untold.append(queue)
    return untold


def _keep(queue: QueueRecords, sizes: NDArray[np.int32], mask: NDArray[np.bool_]) -> None:
    """Leave records out; those behind the mask too."""
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
    """Say why a queue stays where it is; with the message, when that one is to blame."""
    queue.next_queue_offset = _offset_at(queue, sizes, 0)
    queue.error.CopyFrom(status_of(stop))
    to_blame = "queue_offset" in stop.metadata
    queue.records = queue.records[: int(sizes[0])] if to_blame else b""
    queue.record_sizes = sizes[:1].tobytes() if to_blame else b""
