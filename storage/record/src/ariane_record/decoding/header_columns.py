"""Columns of records without bodies: from headers and properties.

::

    headers        | header 0 | header 1 | header 2 | ...          88 bytes each, IPv4 layout
    properties     | properties 0 | properties 1 | properties 2 | ...
    property_ends  [ end of 0,      end of 1,      end of 2,      ... ]
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HEADER, HEADER_BYTES, ByteBuffer

_WIRE_INT32: Final = np.dtype("<i4")


def decode_headers(
    headers: ByteBuffer,
    sizes: NDArray[np.int32],
    properties: ByteBuffer = b"",
    property_ends: ByteBuffer | None = None,
) -> RecordColumns:
    """Columns of records from their headers; bodies and topics are empty.

    Args:
        headers: The headers, back to back; they contain only the flag of an IPv6 host.
        sizes: Bytes of each whole record, int32[count].
        properties: The properties, back to back; may be left out.
        property_ends: The end of each record's properties, little-endian int32 each; ``None`` if
            they are left out.

    Raises:
        RecordCorrupted: The parts do not fit together.
    """
    count = len(sizes)
    if len(headers) != HEADER_BYTES * count:
        raise RecordCorrupted(f"{len(headers)} bytes of headers for {count} records")
    nothing = np.zeros(count, np.int64)
    starts, lengths = nothing, nothing
    if property_ends is not None:
        if len(property_ends) != _WIRE_INT32.itemsize * count:
            raise RecordCorrupted(f"{len(property_ends)} bytes of ends for {count} records")
        ends = np.frombuffer(property_ends, _WIRE_INT32).astype(np.int64)
        lengths = np.diff(ends, prepend=0)
        if (lengths < 0).any() or int(lengths.sum()) != len(properties):
            raise RecordCorrupted(f"its ends do not fit {len(properties)} bytes of properties")
        starts = ends - lengths
    return RecordColumns(
        properties,
        headers=np.frombuffer(headers, HEADER),
        starts=nothing,
        sizes=sizes.astype(np.int64),
        body_start=nothing,
        body_length=nothing,
        topic_start=nothing,
        topic_length=nothing,
        properties_start=starts,
        properties_length=lengths,
    )
