"""Decoding chunks of the log without copying the log's bytes; only the store copies them.

::

    FollowLogResponse   | tag of chunk, length | LogChunk                                      |
                                               | its other fields | tag of log_bytes, length | log

Protocol Buffers would copy them twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.replication.v1.log_service_pb2 import FollowLogResponse, LogChunk
from ariane_record.errors import WireCorrupted
from ariane_record.single.wire_fields import fields_of, length_tag

_CHUNK: Final = length_tag(FollowLogResponse.CHUNK_FIELD_NUMBER)
_LOG_BYTES: Final = length_tag(LogChunk.LOG_BYTES_FIELD_NUMBER)


class LogResponse(NamedTuple):
    """A response of a primary."""

    message: FollowLogResponse
    """The response without the bytes of the log."""
    log_bytes: memoryview
    """Bytes of the log; empty if the response is not a chunk."""


def log_response(raw: bytes) -> LogResponse:
    """Decode a response of FollowLog.

    Raises:
        DecodeError: The bytes are not a response.
    """
    try:
        first = next(fields_of(memoryview(raw)), None)
        if first is None or first.tag != _CHUNK or len(first.whole) < len(raw):
            return LogResponse(FollowLogResponse.FromString(raw), memoryview(b""))
        rest, log_bytes = [], memoryview(b"")
        for field in fields_of(first.value):
            if field.tag == _LOG_BYTES:
                log_bytes = field.value
            else:
                rest.append(field.whole)
    except WireCorrupted as error:
        raise DecodeError(str(error)) from error
    return LogResponse(FollowLogResponse(chunk=LogChunk.FromString(b"".join(rest))), log_bytes)
