"""Chunks of a range as they come over the wire, as columns of records.

A chunk without bodies holds the headers and the properties of its records apart from one another::

    headers        | header 0 | header 1 | header 2 | ...
    properties     | properties 0 | properties 1 | properties 2 | ...
    property_ends  [ end of 0,      end of 1,      end of 2,      ... ]
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_record import RecordCorrupted
from ariane_record.columns import RecordColumns, decode_columns
from ariane_record.layout import HEADER, HEADER_BYTES, SystemFlag
from ariane_spark.columns import Detail

_WIRE_INT32: Final = np.dtype("<i4")
_IPV6_HOSTS: Final = SystemFlag.BORN_HOST_IPV6 | SystemFlag.STORE_HOST_IPV6


class HeadersTooShort(Exception):
    """Some headers are longer than what a chunk without bodies holds of them: IPv6 hosts."""


def decode_chunk(chunk: PullRangeResponse, detail: Detail) -> RecordColumns:
    """The records of one chunk, at least one.

    Args:
        chunk: From the wire.
        detail: What was asked for; columns beyond it are empty.

    Raises:
        HeadersTooShort: The chunk has to be read again as records.
        RecordCorrupted: Its parts do not fit together.
    """
    sizes = np.frombuffer(chunk.record_sizes, _WIRE_INT32).astype(np.int32, copy=False)
    if detail is Detail.RECORDS:
        return decode_columns(chunk.records, sizes)
    if len(chunk.headers) != HEADER_BYTES * len(sizes):
        raise RecordCorrupted(f"{len(chunk.headers)} bytes of headers for {len(sizes)} records")
    headers = np.frombuffer(chunk.headers, HEADER)
    if (headers["system_flag"] & _IPV6_HOSTS).any():
        raise HeadersTooShort
    nothing = np.zeros(len(sizes), np.int64)
    properties_start, properties_length = nothing, nothing
    if detail is Detail.PROPERTIES:
        properties_start, properties_length = _property_spans(chunk, len(sizes))
    return RecordColumns(
        chunk.properties,
        headers=headers,
        starts=nothing,
        sizes=sizes.astype(np.int64),
        body_start=nothing,
        body_length=nothing,
        topic_start=nothing,
        topic_length=nothing,
        properties_start=properties_start,
        properties_length=properties_length,
    )


def _property_spans(
    chunk: PullRangeResponse, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.frombuffer(chunk.property_ends, _WIRE_INT32).astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    if len(ends) != count or (lengths < 0).any() or ends[-1] != len(chunk.properties):
        raise RecordCorrupted(f"{len(ends)} ends of properties do not fit {count} records")
    return ends - lengths, lengths
