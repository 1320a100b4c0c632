"""Decodes chunks of a range from the wire into columns of records."""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.decoding.header_columns import decode_headers
from ariane_record.layout import HOST_FLAGS
from ariane_spark.calls.range_wire import WireChunk
from ariane_spark.records.columns import Detail

_WIRE_INT32: Final = np.dtype("<i4")


class HeadersTooShort(Exception):
    """Some headers are longer than those of a chunk without bodies: IPv6 hosts."""


def decode_chunk(chunk: WireChunk, detail: Detail) -> RecordColumns:
    """The records of one chunk, at least one.

    Args:
        chunk: The chunk from the wire.
        detail: The level of detail; columns beyond it are empty.

    Raises:
        HeadersTooShort: The chunk has to be read again as records.
        RecordCorrupted: Its parts do not fit together.
    """
    sizes = np.frombuffer(chunk.head.record_sizes, _WIRE_INT32).astype(np.int32, copy=False)
    if detail is Detail.RECORDS:
        return decode_columns(chunk.records, sizes)
    ends = chunk.head.property_ends if detail is Detail.PROPERTIES else None
    records = decode_headers(chunk.headers, sizes, chunk.properties, ends)
    if (records.system_flag & HOST_FLAGS).any():
        raise HeadersTooShort
    return records
