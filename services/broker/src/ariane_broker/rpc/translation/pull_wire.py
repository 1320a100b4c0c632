"""Pulls on the wire: their orders, and their answers as bytes.

The records are copied once, out of the commit log.

Protocol Buffers would copy them twice more, into its message and out of it. A message is its
fields in any order. So the generated class encodes the small fields, and the records, which are
the last field, are appended by hand::

    StreamPullsResponse     0A length { PullRecordsResponse }   10 01 where more follow
    PullRecordsResponse     0A length { QueueRecords }   ...once for each queue
    QueueRecords            topic, queue id, ..., sizes   7A length { records }
                            topic, queue id, ..., runs    72 length { bodies }
    PullRangeResponse       next queue offset, sizes, ...   1A length { headers }
                            2A length { properties }        7A length { records }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from ariane.broker.v1.pull_service_pb2 import (
    PULL_PROJECTION_BODIES,
    BodyRun,
    LostRun,
    PullMessagesRequest,
    PullPosition,
    PullRangeResponse,
    PullRecordsRequest,
    PullRecordsResponse,
    QueueMessages,
    QueueRecords,
    ReplicaHint,
    StreamPullsResponse,
)
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.read.range_pull import RangeChunk
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.rpc.translation.stored_message import fill_message
from ariane_broker.rpc.translation.subscription_wire import filters_of
from ariane_broker.rpc.translation.wire_time import seconds_of
from ariane_record import decode_record
from ariane_record.decoding.body_runs import GatheredBodies, gather_bodies
from ariane_record.single.wire_fields import length_prefix, length_tag
from ariane_servicekit import in_turns
from ariane_servicekit.rpc.error_status import status_of
from ariane_storage.log.records.fields import Int64s

_Piece: TypeAlias = bytes | memoryview

_INT32: Final = np.dtype("<i4")
_PULLED: Final = length_tag(StreamPullsResponse.PULLED_FIELD_NUMBER)
_MORE_FOLLOW: Final = StreamPullsResponse(more_follow=True).SerializeToString()
_QUEUES: Final = length_tag(PullRecordsResponse.QUEUES_FIELD_NUMBER)
_BODIES: Final = length_tag(QueueRecords.BODIES_FIELD_NUMBER)
_RECORDS: Final = length_tag(QueueRecords.RECORDS_FIELD_NUMBER)
_RANGE_HEADERS: Final = length_tag(PullRangeResponse.HEADERS_FIELD_NUMBER)
_RANGE_PROPERTIES: Final = length_tag(PullRangeResponse.PROPERTIES_FIELD_NUMBER)
_RANGE_RECORDS: Final = length_tag(PullRangeResponse.RECORDS_FIELD_NUMBER)


async def pull_order(
    request: PullRecordsRequest | PullMessagesRequest, *, hold_seconds_max: float | None
) -> PullOrder:
    """The order of a consumer, or of a client of plain messages.

    Args:
        request: Its request.
        hold_seconds_max: The hold time that the call's deadline allows.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if isinstance(request, PullMessagesRequest):
        count_max, is_exact, bodies_suffice = request.message_count_max, True, False
    else:
        bodies_suffice = request.projection == PULL_PROJECTION_BODIES
        count_max, is_exact = request.record_count_max, False
    return PullOrder(
        consumer_group=request.consumer_group,
        client_id=request.client_id,
        positions=tuple(await in_turns(map(pull_position, request.positions))),
        filters=filters_of(request.subscriptions),
        record_count_max=count_max,
        size_bytes_max=request.size_bytes_max,
        hold_seconds=seconds_of(request.hold_duration, "hold_duration"),
        hold_seconds_max=hold_seconds_max,
        exact=is_exact,
        bodies_suffice=bodies_suffice,
        uploaded_filters_follow=request.uploaded_filters_follow,
    )


def pull_position(position: PullPosition) -> Position:
    """The position of a pull in one queue."""
    return Position(
        QueueKey(position.topic, position.queue_id),
        position.queue_offset,
        position.record_count_max,
        position.size_bytes_max,
        position.lock_epoch if position.HasField("lock_epoch") else None,
        position.log_epoch,
    )


async def pull_answer(pulled: Iterable[PulledQueue]) -> bytes:
    """A ``PullRecordsResponse``, encoded; chunks are read now."""
    return b"".join(await _queues(pulled))


async def stream_answer(pulled: Iterable[PulledQueue], *, more_follow: bool = False) -> bytes:
    """A ``StreamPullsResponse``, encoded.

    Args:
        pulled: The messages found; their chunks are read now.
        more_follow: Whether the same pull goes on.
    """
    pieces = await _queues(pulled)
    size = sum(map(len, pieces))
    return b"".join((length_prefix(_PULLED, size), *pieces, _MORE_FOLLOW if more_follow else b""))


async def _queues(pulled: Iterable[PulledQueue]) -> list[_Piece]:
    """The queues of a ``PullRecordsResponse``, encoded, in pieces."""
    pieces: list[_Piece] = []
    for parts in await in_turns(map(_parts, pulled)):
        pieces += (length_prefix(_QUEUES, sum(map(len, parts))), *parts)
    return pieces


def _parts(queue: PulledQueue) -> list[_Piece]:
    """A ``QueueRecords``, encoded, in pieces."""
    if not queue.chunks:
        return [_queue_head(queue).SerializeToString()]
    if queue.bodies_suffice:
        bodies = gather_bodies(queue.chunks, queue.sizes)
        if bodies is not None:
            head = _bodies_head(queue, bodies).SerializeToString()
            return [head, length_prefix(_BODIES, len(bodies.octets)), bodies.octets.data]
    head = _queue_head(queue).SerializeToString()
    return [head, length_prefix(_RECORDS, queue.size_bytes), *queue.chunks]


def _bodies_head(queue: PulledQueue, bodies: GatheredBodies) -> QueueRecords:
    """The fields of a queue whose bodies are handed out, without the bodies."""
    head = _queue_head(replace(queue, sizes=queue.sizes[:0]))
    for run in bodies.runs:
        head.body_runs.append(BodyRun(**run._asdict()))
    return head


def _queue_head(queue: PulledQueue) -> QueueRecords:
    """The fields of a queue, without its records."""
    topic, queue_id = queue.queue
    head = QueueRecords(
        topic=topic,
        queue_id=queue_id,
        next_queue_offset=queue.next_queue_offset,
        min_queue_offset=queue.min_queue_offset,
        max_queue_offset=queue.max_queue_offset,
        log_epoch=queue.log_epoch,
        record_sizes=queue.sizes.astype(_INT32, copy=False).tobytes(),
    )
    if queue.error is not None:
        head.error.CopyFrom(status_of(queue.error))
    if queue.replica is not None:
        head.replica.CopyFrom(ReplicaHint(**queue.replica._asdict()))
    if len(queue.lost_offsets):
        head.lost.extend(lost_runs(queue.lost_offsets))
    return head


def lost_runs(lost_offsets: Int64s) -> list[LostRun]:
    """Lost messages, by ascending queue offsets, as runs."""
    if not len(lost_offsets):
        return []
    return [
        LostRun(first_queue_offset=first, message_count=count)
        for first, count in ranges_of(lost_offsets).tolist()
    ]


def range_answer(chunk: RangeChunk) -> bytes:
    """A ``PullRangeResponse``, encoded.

    Args:
        chunk: The chunk; its records are copied now.
    """
    ends = chunk.property_ends
    head = PullRangeResponse(
        next_queue_offset=chunk.next_queue_offset,
        record_sizes=chunk.sizes.astype(_INT32, copy=False).tobytes(),
        property_ends=b"" if ends is None else ends.astype(_INT32, copy=False).tobytes(),
        lost=lost_runs(chunk.lost_offsets),
    )
    pieces: list[bytes | memoryview] = [head.SerializeToString()]
    for tag, parts in (
        (_RANGE_HEADERS, (chunk.headers,)),
        (_RANGE_PROPERTIES, (chunk.properties,)),
        (_RANGE_RECORDS, chunk.records),
    ):
        if size := sum(map(len, parts)):
            pieces += (length_prefix(tag, size), *parts)
    return b"".join(pieces)


def queue_messages(pulled: PulledQueue, broker_name: str) -> Iterator[QueueMessages | None]:
    """The messages of one queue, all together; yields None for each of them before."""
    answer = QueueMessages(
        topic=pulled.queue.topic,
        queue_id=pulled.queue.queue_id,
        error=None if pulled.error is None else status_of(pulled.error),
        next_queue_offset=pulled.next_queue_offset,
        min_queue_offset=pulled.min_queue_offset,
        max_queue_offset=pulled.max_queue_offset,
        log_epoch=pulled.log_epoch,
        replica=None if pulled.replica is None else ReplicaHint(**pulled.replica._asdict()),
        lost=lost_runs(pulled.lost_offsets),
    )
    records, begin = memoryview(pulled.records), 0
    for size in pulled.sizes.tolist():
        record = records[begin : begin + size]
        fill_message(decode_record(record, verify=False), broker_name, answer.messages.add())
        begin += size
        yield None
    yield answer
