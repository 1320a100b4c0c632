"""Chunks of the log as they are sent: its bytes are put beside what is encoded, and copied once."""

from __future__ import annotations

from typing import Final

from ariane.replication.v1.log_service_pb2 import FollowLogResponse, LogChunk
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import length_prefix, length_tag

_CHUNK: Final = length_tag(FollowLogResponse.CHUNK_FIELD_NUMBER)
_LOG_BYTES: Final = length_tag(LogChunk.LOG_BYTES_FIELD_NUMBER)


def chunk_response(chunk: LogChunk, log_bytes: ByteBuffer) -> bytes:
    """A response with a chunk.

    Args:
        chunk: All of it but its bytes.
        log_bytes: These.
    """
    rest = chunk.SerializeToString() + length_prefix(_LOG_BYTES, len(log_bytes))
    return b"".join((length_prefix(_CHUNK, len(rest) + len(log_bytes)), rest, log_bytes))
