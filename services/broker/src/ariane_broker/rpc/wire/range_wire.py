"""Chunks of a range, as bytes: the records are copied once, out of the commit log.

As with pulls of a stream (see ``pull_wire``), what is small is encoded by the generated class, and
what is large is put behind it by hand::

    PullRangeResponse     next queue offset, sizes, ...   1A length { headers }
                          2A length { properties }        7A length { records }
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_broker.read.range_pull import RangeChunk
from ariane_record.single.wire_fields import length_prefix, length_tag

_INT32: Final = np.dtype("<i4")
_HEADERS: Final = length_tag(PullRangeResponse.HEADERS_FIELD_NUMBER)
_PROPERTIES: Final = length_tag(PullRangeResponse.PROPERTIES_FIELD_NUMBER)
_RECORDS: Final = length_tag(PullRangeResponse.RECORDS_FIELD_NUMBER)


def range_answer(chunk: RangeChunk) -> bytes:
    """A ``PullRangeResponse``, encoded.

    Args:
        chunk: What was read; its records are copied now.
    """
    ends = chunk.property_ends
    head = PullRangeResponse(
        next_queue_offset=chunk.next_queue_offset,
        record_sizes=chunk.sizes.astype(_INT32, copy=False).tobytes(),
        property_ends=b"" if ends is None else ends.astype(_INT32, copy=False).tobytes(),
    )
    pieces: list[bytes | memoryview] = [head.SerializeToString()]
    for tag, parts in (
        (_HEADERS, (chunk.headers,)),
        (_PROPERTIES, (chunk.properties,)),
        (_RECORDS, chunk.records),
    ):
        if size := sum(map(len, parts)):
            pieces += (length_prefix(tag, size), *parts)
    return b"".join(pieces)
