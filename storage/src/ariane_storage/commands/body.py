"""The body of a message as its producer gave it."""

from __future__ import annotations

import zlib
from typing import Any, Final

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from ariane_record import RecordFields, SystemFlag
from ariane_record.checksum import crc32
from ariane_record.layout import COMPRESSION_TYPE_MASK

_BODY_BYTES_MAX: Final = 64 << 20
"""A compressed body that would grow beyond this is taken for damaged."""


def original_body(message: RecordFields) -> dict[str, Any]:
    """Length and CRC-32 of a body after decompression; None if it cannot be decompressed."""
    body: bytes | None = message.body
    if message.system_flag & SystemFlag.COMPRESSED:
        body = _decompress(message.body, message.system_flag & COMPRESSION_TYPE_MASK)
    return {
        "body_length": None if body is None else len(body),
        "body_crc32": None if body is None else crc32(body),
        "stored_body_length": len(message.body),
    }


def _decompress(stored: bytes, kind: int) -> bytes | None:
    try:
        if kind == SystemFlag.COMPRESSION_LZ4:
            lz4_stream = lz4.frame.LZ4FrameDecompressor()
            return bytes(lz4_stream.decompress(stored, max_length=_BODY_BYTES_MAX))
        if kind == SystemFlag.COMPRESSION_ZSTD:
            stream = zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True)
            return bytes(stream.read(_BODY_BYTES_MAX))
        return zlib.decompressobj().decompress(stored, _BODY_BYTES_MAX)
    except (zlib.error, RuntimeError, zstandard.ZstdError):
        return None
