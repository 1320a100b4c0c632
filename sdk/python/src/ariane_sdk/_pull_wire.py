"""Answers to pulls as they come over the wire: the records are looked at where they lie.

Protocol Buffers would copy every block once more. The fields of a message may be taken apart and
put together as bytes, so the generated class decodes all but the records::

    StreamPullsResponse     0A length { PullRecordsResponse }
    PullRecordsResponse     0A length { QueueRecords }   ...once for each queue
    QueueRecords            topic, queue id, ..., sizes   7A length { records }
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsResponse,
    QueueRecords,
    StreamPullsResponse,
)
from ariane_record.errors import WireCorrupted
from ariane_record.wire_fields import fields_of, length_tag

_PULLED: Final = length_tag(StreamPullsResponse.PULLED_FIELD_NUMBER)
_QUEUES: Final = length_tag(PullRecordsResponse.QUEUES_FIELD_NUMBER)
_RECORDS: Final = length_tag(QueueRecords.RECORDS_FIELD_NUMBER)


class PulledRecords(NamedTuple):
    """What one queue gave.

    Attributes:
        head: What is said of it; its ``records`` are empty.
        records: The records, back to back: a view of the answer.
    """

    head: QueueRecords
    records: memoryview


def pulled_records(answer: bytes) -> list[PulledRecords]:
    """Take a ``StreamPullsResponse`` apart.

    Args:
        answer: As it came.

    Raises:
        DecodeError: It is none.
    """
    try:
        return [
            _pulled(queue.value)
            for pulled in fields_of(memoryview(answer))
            if pulled.tag == _PULLED
            for queue in fields_of(pulled.value)
            if queue.tag == _QUEUES
        ]
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error


def _pulled(queue: memoryview) -> PulledRecords:
    records = queue[:0]
    rest: list[memoryview] = []
    for field in fields_of(queue):
        if field.tag == _RECORDS:
            records = field.value
        else:
            rest.append(field.whole)
    return PulledRecords(QueueRecords.FromString(b"".join(rest)), records)
