"""Answers to pulls as they come over the wire: the records are looked at where they lie.

Protocol Buffers would copy every block once more. The fields of a message may be taken apart and
put together as bytes, so the generated class decodes all but the records::

    StreamPullsResponse     0A length { PullRecordsResponse }
    PullRecordsResponse     0A length { QueueRecords }   ...once for each queue
    QueueRecords            topic, queue id, ..., sizes   7A length { records }

Source: the encoding of Protocol Buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsResponse,
    QueueRecords,
    StreamPullsResponse,
)

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}

_PULLED: Final = StreamPullsResponse.PULLED_FIELD_NUMBER << 3 | _BYTES
_QUEUES: Final = PullRecordsResponse.QUEUES_FIELD_NUMBER << 3 | _BYTES
_RECORDS: Final = QueueRecords.RECORDS_FIELD_NUMBER << 3 | _BYTES


class PulledRecords(NamedTuple):
    """What one queue gave.

    Attributes:
        head: What is said of it; its ``records`` are empty.
        records: The records, back to back: a view of the answer.
    """

    head: QueueRecords
    records: memoryview


class _Field(NamedTuple):
    """One field of a message.

    Attributes:
        tag: Its number and wire type.
        start: Where its tag starts.
        begin: Where its value starts.
        end: Where that ends.
    """

    tag: int
    start: int
    begin: int
    end: int


def pulled_records(answer: bytes) -> list[PulledRecords]:
    """Take a ``StreamPullsResponse`` apart.

    Args:
        answer: As it came.

    Raises:
        DecodeError: It is none.
    """
    view = memoryview(answer)
    return [
        _pulled(view[queue.begin : queue.end])
        for pulled in _fields(view, 0, len(view))
        if pulled.tag == _PULLED
        for queue in _fields(view, pulled.begin, pulled.end)
        if queue.tag == _QUEUES
    ]


def _pulled(queue: memoryview) -> PulledRecords:
    for field in _fields(queue, 0, len(queue)):
        if field.tag == _RECORDS:
            head = bytes(queue[: field.start]) + bytes(queue[field.end :])
            return PulledRecords(QueueRecords.FromString(head), queue[field.begin : field.end])
    return PulledRecords(QueueRecords.FromString(bytes(queue)), queue[:0])


def _fields(view: memoryview, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message that lies there, in their order."""
    while start < end:
        tag, begin = _varint(view, start, end)
        kind = tag & 7
        if kind == _BYTES:
            length, begin = _varint(view, begin, end)
            stop = begin + length
        elif kind == _VARINT:
            _, stop = _varint(view, begin, end)
        elif kind in _FIXED_BYTES:
            stop = begin + _FIXED_BYTES[kind]
        else:
            raise DecodeError(f"a field of the unknown wire type {kind}")
        if stop > end:
            raise DecodeError("a field is longer than its message")
        yield _Field(tag, start, begin, stop)
        start = stop


def _varint(view: memoryview, start: int, end: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where it ends."""
    number = shift = 0
    while start < end and shift < 64:
        octet = view[start]
        start += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number, start
        shift += 7
    raise DecodeError("a number does not end")
