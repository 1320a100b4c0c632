"""Chunks of a range on the wire: large fields are views of the answer.

Protocol Buffers would copy them once more. The fields of a message can be separated and joined as
bytes, so the generated class decodes all fields except these::

    PullRangeResponse     next queue offset, sizes, ...   1A length { headers }
                          2A length { properties }        7A length { records }
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_record.errors import WireCorrupted
from ariane_record.single.wire_fields import fields_of, length_tag

_HEADERS: Final = length_tag(PullRangeResponse.HEADERS_FIELD_NUMBER)
_PROPERTIES: Final = length_tag(PullRangeResponse.PROPERTIES_FIELD_NUMBER)
_RECORDS: Final = length_tag(PullRangeResponse.RECORDS_FIELD_NUMBER)
_LARGE: Final = frozenset({_HEADERS, _PROPERTIES, _RECORDS})
_NOTHING: Final = memoryview(b"")


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
