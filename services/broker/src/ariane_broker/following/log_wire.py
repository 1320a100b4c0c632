"""Chunks of the log as they come: its bytes are cut out, and copied by the store alone.

::

    FollowLogResponse   | tag of chunk, length | LogChunk                                      |
                                               | its other fields | tag of log_bytes, length | log

Protocol Buffers would copy them twice before anybody could look at them.
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
    """What a primary says.

    Attributes:
        message: All but bytes of the log.
        log_bytes: These; none if it is no chunk.
    """

    message: FollowLogResponse
    log_bytes: memoryview


def log_response(raw: bytes) -> LogResponse:
    """A response of FollowLog.

    Raises:
        DecodeError: It is none.
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
