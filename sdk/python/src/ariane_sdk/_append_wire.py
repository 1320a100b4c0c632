"""Appends as bytes: Protocol Buffers encodes what is small, and records are put beside it.

It would copy them twice, into pages that the system has to find first; here they are copied once,
when all parts of a request are joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ariane.broker.v1.send_service_pb2 import (
    AppendBatch,
    AppendRecordsRequest,
    StreamAppendsRequest,
)
from ariane_record.layout import ByteBuffer

_LENGTH: Final = 2
_VARINT: Final = 0


class EncodedBatch(NamedTuple):
    """A batch on the wire.

    Attributes:
        head: Everything but the records: an ``AppendBatch``.
        records: The records.
    """

    head: bytes
    records: ByteBuffer


def _number_of(message: type[AppendBatch | StreamAppendsRequest], name: str) -> int:
    return message.DESCRIPTOR.fields_by_name[name].number


def _varint(number: int) -> bytes:
    if number < 0x80:
        return number.to_bytes(1)
    octets = bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


_BATCHES: Final = _varint(_number_of(StreamAppendsRequest, "batches") << 3 | _LENGTH)
_REQUEST_NUMBER: Final = _varint(_number_of(StreamAppendsRequest, "request_number") << 3 | _VARINT)
_RECORDS: Final = _varint(_number_of(AppendBatch, "records") << 3 | _LENGTH)


def request_parts(producer_group: str, batches: Iterable[EncodedBatch]) -> list[ByteBuffer]:
    """The parts of an AppendRecordsRequest, to be joined.

    Args:
        producer_group: The producer's group.
        batches: What to append.
    """
    parts: list[ByteBuffer] = []
    if producer_group:
        parts.append(AppendRecordsRequest(producer_group=producer_group).SerializeToString())
    for head, records in batches:
        before_records = _RECORDS + _varint(len(records))
        length = len(head) + len(before_records) + len(records)
        parts += (_BATCHES + _varint(length) + head + before_records, records)
    return parts


def number_part(request_number: int) -> bytes:
    """What makes it a StreamAppendsRequest: its number."""
    return _REQUEST_NUMBER + _varint(request_number)
