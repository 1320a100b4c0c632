"""Answers to pulls as they come over the wire: the records are looked at where they lie.

Protocol Buffers would copy every block once more. The fields of a message may be taken apart and
put together as bytes, so the generated class decodes all but the records::

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
    """What one queue gave.

    Attributes:
        head: What is said of it; its ``records`` and ``bodies`` are empty.
        records: The records, back to back: a view of the answer.
        bodies: Bodies alone, in place of records: the same.
    """

    head: QueueRecords
    records: memoryview
    bodies: memoryview

    @property
    def message_count(self) -> int:
        """How many messages came."""
        runs = self.head.body_runs
        if runs:
            return sum(run.message_count for run in runs)
        return len(self.head.record_sizes) // _SIZE_BYTES

    @property
    def record_bytes(self) -> int:
        """Bytes of their records, also of those that did not come."""
        runs = self.head.body_runs
        if runs:
            return sum(run.message_count * run.record_bytes for run in runs)
        return len(self.records)

    def without(self, rows: Collection[int]) -> PulledRecords:
        """The same without some records.

        Args:
            rows: Which to leave out.
        """
        sizes = np.frombuffer(self.head.record_sizes, "<i4")
        kept = np.ones(len(sizes), np.bool_)
        kept[list(rows)] = False
        head = QueueRecords()
        head.CopyFrom(self.head)
        head.record_sizes = sizes[kept].tobytes()
        octets = np.frombuffer(self.records, np.uint8)[np.repeat(kept, sizes)]
        return self._replace(head=head, records=octets.data)


class PullAnswer(NamedTuple):
    """One answer to a pull of a stream.

    Attributes:
        queues: What each queue gave.
        more_follow: Whether the next answer is one to the same pull.
    """

    queues: Sequence[PulledRecords]
    more_follow: bool


def pull_answer(answer: bytes) -> PullAnswer:
    """Take a ``StreamPullsResponse`` apart.

    Args:
        answer: As it came.

    Raises:
        DecodeError: It is none.
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
