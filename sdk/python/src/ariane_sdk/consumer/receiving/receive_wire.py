"""Decoding answers with received records; many records stay a view of the answer.

As with pulls, the generated class decodes all but the records, unless they are so few that to copy
them is less than to cut them out::

    ReceiveRecordsResponse     0A length { ReceivedRecords }   ...once for each queue
    ReceivedRecords            topic, queue id, receipt, ..., sizes   7A length { records }
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.broker.v1.receive_service_pb2 import ReceivedRecords, ReceiveRecordsResponse
from ariane_record.errors import WireCorrupted
from ariane_record.single.wire_fields import fields_of, length_tag

_QUEUES: Final = length_tag(ReceiveRecordsResponse.QUEUES_FIELD_NUMBER)
_RECORDS: Final = length_tag(ReceivedRecords.RECORDS_FIELD_NUMBER)


COPIED_BYTES_MAX: Final = 16 << 10
"""Up to here the generated class decodes the whole answer, and copies it twice: some 2 us."""


class QueueAnswer(NamedTuple):
    """The part of one queue."""

    head: ReceivedRecords
    """All fields but ``records``, which is empty."""
    records: memoryview
    """The records, back to back."""


def receive_answer(answer: bytes) -> list[QueueAnswer]:
    """Decode a ``ReceiveRecordsResponse``.

    Raises:
        DecodeError: The bytes are no such response.
    """
    if len(answer) <= COPIED_BYTES_MAX:
        found = []
        for queue in ReceiveRecordsResponse.FromString(answer).queues:
            records = queue.records
            queue.ClearField("records")
            found.append(QueueAnswer(queue, memoryview(records)))
        return found
    try:
        return [
            _of_queue(queue.value)
            for queue in fields_of(memoryview(answer))
            if queue.tag == _QUEUES
        ]
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error


def _of_queue(queue: memoryview) -> QueueAnswer:
    records = queue[:0]
    rest: list[memoryview] = []
    for field in fields_of(queue):
        if field.tag == _RECORDS:
            records = field.value
        else:
            rest.append(field.whole)
    return QueueAnswer(ReceivedRecords.FromString(b"".join(rest)), records)
