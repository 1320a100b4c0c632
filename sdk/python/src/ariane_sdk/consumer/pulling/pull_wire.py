"""Answers to pulls as they come over the wire, decoded without a copy of the records.

Protocol Buffers would copy every block once more. Here the fields of a message are split as bytes,
and the generated class decodes all fields but the records::

    StreamPullsResponse     0A length { PullRecordsResponse }   10 01 where more follow
    PullRecordsResponse     0A length { QueueRecords }   ...once for each queue
    QueueRecords            topic, queue id, ..., sizes   7A length { records }
                            topic, queue id, ..., runs    72 length { bodies }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsResponse,
    QueueRecords,
    StreamPullsResponse,
)
from ariane_record.errors import WireCorrupted
from ariane_record.single.wire_fields import fields_of, length_tag, number_tag

_PULLED: Final = length_tag(StreamPullsResponse.PULLED_FIELD_NUMBER)
_MORE_FOLLOW: Final = number_tag(StreamPullsResponse.MORE_FOLLOW_FIELD_NUMBER)
_QUEUES: Final = length_tag(PullRecordsResponse.QUEUES_FIELD_NUMBER)
_BODIES: Final = length_tag(QueueRecords.BODIES_FIELD_NUMBER)
_RECORDS: Final = length_tag(QueueRecords.RECORDS_FIELD_NUMBER)
_SIZE_BYTES: Final = 4


class PulledRecords(NamedTuple):
    """The records of one queue."""

    head: QueueRecords
    """The fields beside them; its ``records`` and ``bodies`` are empty."""
    records: memoryview
    """The records, back to back: a view of the answer."""
    bodies: memoryview
    """Bodies in place of whole records: a view as well."""

    @property
    def message_count(self) -> int:
        """Number of messages."""
        runs = self.head.body_runs
        if runs:
            return sum(run.message_count for run in runs)
        return len(self.head.record_sizes) // _SIZE_BYTES

    @property
    def record_bytes(self) -> int:
        """Bytes of the whole records, also where only bodies came."""
        runs = self.head.body_runs
        if runs:
            return sum(run.message_count * run.record_bytes for run in runs)
        return len(self.records)

    def without(self, rows: Collection[int]) -> PulledRecords:
        """Return a copy without some records."""
        sizes = np.frombuffer(self.head.record_sizes, "<i4")
        kept = np.ones(len(sizes), np.bool_)
        kept[list(rows)] = False
        head = QueueRecords()
        head.CopyFrom(self.head)
        head.ClearField("lost")  # It was reported.
        head.record_sizes = sizes[kept].tobytes()
        octets = np.frombuffer(self.records, np.uint8)[np.repeat(kept, sizes)]
        return self._replace(head=head, records=octets.data)


class PullAnswer(NamedTuple):
    """One answer to a pull of a stream."""

    queues: Sequence[PulledRecords]
    """The records of each queue."""
    more_follow: bool
    """Whether the next answer is to the same pull."""


def pull_answer(answer: bytes) -> PullAnswer:
    """Decode a ``StreamPullsResponse``.

    Raises:
        DecodeError: The bytes are no such response.
    """
    queues: list[PulledRecords] = []
    more_follow = False
    try:
        for field in fields_of(memoryview(answer)):
            if field.tag == _PULLED:
                queues += [
                    _pulled(queue.value) for queue in fields_of(field.value) if queue.tag == _QUEUES
                ]
            elif field.tag == _MORE_FOLLOW:
                more_follow = bool(field.value[0])
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error
    return PullAnswer(queues, more_follow)


def _pulled(queue: memoryview) -> PulledRecords:
    records = bodies = queue[:0]
    rest: list[memoryview] = []
    for field in fields_of(queue):
        if field.tag == _RECORDS:
            records = field.value
        elif field.tag == _BODIES:
            bodies = field.value
        else:
            rest.append(field.whole)
    return PulledRecords(QueueRecords.FromString(b"".join(rest)), records, bodies)
