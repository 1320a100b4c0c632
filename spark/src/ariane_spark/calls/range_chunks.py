"""Chunks of a range: from the wire to columns of records. Large fields are views of the answer.

Protocol Buffers would copy them once more. The fields of a message can be separated and joined as
bytes, so the generated class decodes all fields except these::

    PullRangeResponse     next queue offset, sizes, ...   1A length { headers }
                          2A length { properties }        7A length { records }
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.decoding.header_columns import decode_headers
from ariane_record.errors import RecordCorrupted, WireCorrupted
from ariane_record.layout import HOST_FLAGS
from ariane_record.single.wire_fields import fields_of, length_tag
from ariane_spark.records.columns import Detail

_HEADERS: Final = length_tag(PullRangeResponse.HEADERS_FIELD_NUMBER)
_PROPERTIES: Final = length_tag(PullRangeResponse.PROPERTIES_FIELD_NUMBER)
_RECORDS: Final = length_tag(PullRangeResponse.RECORDS_FIELD_NUMBER)
_LARGE: Final = frozenset({_HEADERS, _PROPERTIES, _RECORDS})
_NOTHING: Final = memoryview(b"")
_WIRE_INT32: Final = np.dtype("<i4")


class HeadersTooShort(Exception):
    """Some headers are longer than those of a chunk without bodies: IPv6 hosts."""


class WireChunk(NamedTuple):
    """A chunk of a range; large fields are views of the answer."""

    head: PullRangeResponse
    """The small fields: next queue offset, sizes and ends."""
    headers: memoryview
    """The header of each record."""
    properties: memoryview
    """The property strings."""
    records: memoryview
    """Whole records."""


def wire_chunk(answer: bytes) -> WireChunk:
    """Decode a ``PullRangeResponse``.

    Raises:
        DecodeError: It is not such a message.
    """
    large: dict[int, memoryview] = {}
    rest: list[memoryview] = []
    try:
        for field in fields_of(memoryview(answer)):
            if field.tag in _LARGE:
                large[field.tag] = field.value
            else:
                rest.append(field.whole)
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error
    return WireChunk(
        PullRangeResponse.FromString(b"".join(rest)),
        large.get(_HEADERS, _NOTHING),
        large.get(_PROPERTIES, _NOTHING),
        large.get(_RECORDS, _NOTHING),
    )


def decode_chunk(chunk: WireChunk, detail: Detail) -> RecordColumns:
    """The records of one chunk, at least one.

    Args:
        chunk: The chunk from the wire.
        detail: The level of detail; columns beyond it are empty.

    Raises:
        HeadersTooShort: The chunk has to be read again as records.
        RecordCorrupted: Its parts do not fit together.
    """
    octets = chunk.head.record_sizes
    if len(octets) % _WIRE_INT32.itemsize:
        raise RecordCorrupted(f"{len(octets)} bytes of sizes are no whole numbers")
    sizes = np.frombuffer(octets, _WIRE_INT32).astype(np.int32, copy=False)
    if detail is Detail.RECORDS:
        return decode_columns(chunk.records, sizes)
    ends = chunk.head.property_ends if detail is Detail.PROPERTIES else None
    records = decode_headers(chunk.headers, sizes, chunk.properties, ends)
    if (records.system_flag & HOST_FLAGS).any():
        raise HeadersTooShort
    return records
