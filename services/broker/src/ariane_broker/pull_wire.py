"""Answers to pulls of a stream, as bytes: the records are copied once, out of the commit log.

Protocol Buffers would copy them twice more, into its message and out of it. A message is its
fields in any order, so what is small is encoded by the generated class, and the records, which are
the last field, are put behind it by hand::

    StreamPullsResponse     0A length { PullRecordsResponse }
    PullRecordsResponse     0A length { QueueRecords }   ...once for each queue
    QueueRecords            topic, queue id, ..., sizes   7A length { records }

A tag is the number of a field and the wire type 2, "so many bytes"; a length is a varint. Source:
the encoding of Protocol Buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsResponse,
    QueueRecords,
    StreamPullsResponse,
)
from ariane_broker.pull import PulledQueue
from ariane_servicekit.error_status import status_of

_Piece: TypeAlias = bytes | memoryview

_INT32: Final = np.dtype("<i4")
_BYTES_TYPE: Final = 2
_PULLED_TAG: Final = bytes([StreamPullsResponse.PULLED_FIELD_NUMBER << 3 | _BYTES_TYPE])
_QUEUES_TAG: Final = bytes([PullRecordsResponse.QUEUES_FIELD_NUMBER << 3 | _BYTES_TYPE])
_RECORDS_TAG: Final = bytes([QueueRecords.RECORDS_FIELD_NUMBER << 3 | _BYTES_TYPE])


def stream_answer(pulled: Iterable[PulledQueue]) -> bytes:
    """A ``StreamPullsResponse``, encoded.

    Args:
        pulled: What was found; its chunks are read now.
    """
    pieces: list[_Piece] = []
    size = 0
    for queue in pulled:
        head = queue_head(queue).SerializeToString()
        queue_size = len(head)
        records_bytes = queue.size_bytes
        if records_bytes:
            length = varint(records_bytes)
            queue_size += len(_RECORDS_TAG) + len(length) + records_bytes
            queue_length = varint(queue_size)
            pieces += (_QUEUES_TAG, queue_length, head, _RECORDS_TAG, length, *queue.chunks)
        else:
            queue_length = varint(queue_size)
            pieces += (_QUEUES_TAG, queue_length, head)
        size += len(_QUEUES_TAG) + len(queue_length) + queue_size
    return b"".join((_PULLED_TAG, varint(size), *pieces))


def queue_head(queue: PulledQueue) -> QueueRecords:
    """What is said of a queue, all but its records."""
    return QueueRecords(
        topic=queue.queue.topic,
        queue_id=queue.queue.queue_id,
        error=None if queue.error is None else status_of(queue.error),
        next_queue_offset=queue.next_queue_offset,
        min_queue_offset=queue.min_queue_offset,
        max_queue_offset=queue.max_queue_offset,
        record_sizes=queue.sizes.astype(_INT32, copy=False).tobytes(),
    )


def varint(number: int) -> bytes:
    """A number of 0 or more as Protocol Buffers writes it: 7 bits a byte, the lowest first."""
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
