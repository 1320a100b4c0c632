"""Compression of bodies before they are stored, if they are large and become smaller."""

from __future__ import annotations

from typing import Final, TypeAlias

from ariane_record.layout import ByteBuffer
from ariane_record.single.compression import Compression, body_compressor
from ariane_sdk.settings import ProducerSettings

NEVER_BYTES: Final = 1 << 62
"""No body is that large."""

PackedBody: TypeAlias = tuple[ByteBuffer, int]
"""A body as it is to be stored, and the bits of the system flag that say how."""


class BodyPacking:
    """Compresses large bodies.

    Attributes:
        size_bytes_min: Smaller bodies are stored as they are.
    """

    __slots__ = ("_compress", "_system_flag", "size_bytes_min")

    def __init__(self, settings: ProducerSettings) -> None:
        """Choose the format.

        Raises:
            CodecMissing: The library of the format is not installed.
        """
        kind = settings.compression
        self._system_flag = kind.system_flag
        if kind is Compression.NONE:
            self.size_bytes_min = NEVER_BYTES
        else:
            self.size_bytes_min = settings.compress_bytes_min
            self._compress = body_compressor(kind, settings.compression_level)

    def packed(self, body: ByteBuffer) -> PackedBody:
        """Compress a large body, unless that makes it larger."""
        compressed = self._compress(body)
        return (compressed, self._system_flag) if len(compressed) < len(body) else (body, 0)
