"""Compressed bodies, in the formats of RocketMQ, so that either system reads the other's bodies.

The system flag shows whether a body is compressed, and its format::

    bit 0           compressed
    bits 8 to 10    1: LZ4 frame    2: Zstandard frame    3, or 0 of old clients: zlib stream

The writer of a body decides its size after decompression, so decompression has an upper bound. LZ4
and Zstandard need the extra ``ariane-record[compression]``; zlib is always available.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final

from ariane_record.errors import BodyDamaged, CodecMissing
from ariane_record.layout import COMPRESSION_TYPE_MASK, ByteBuffer, SystemFlag

DECOMPRESSED_BYTES_MAX: Final = 32 << 20
"""The most bytes of a decompressed body: eight times the brokers' limit for bodies."""

_DECOMPRESSED_ZSTD_WINDOW_MAX: Final = 32 << 20
_NEVER_BYTES: Final = 1 << 62
"""No body is that large."""

_LZ4_HIGH_LEVEL_MIN: Final = 3
"""Below it LZ4 has only one level."""


class Compression(Enum):
    """The format of compression; the value is the name in settings."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    ZLIB = "zlib"

    @property
    def system_flag(self) -> int:
        """The bits of the system flag for this format."""
        return _SYSTEM_FLAGS[self]


_COMPRESSED: Final = int(SystemFlag.COMPRESSED)
_SYSTEM_FLAGS: Final = {
    Compression.NONE: 0,
    Compression.LZ4: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_LZ4),
    Compression.ZSTD: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZSTD),
    Compression.ZLIB: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB),
}


def body_compressor(kind: Compression, level: int) -> Callable[[Any], bytes]:
    """A function that compresses one body, without Python code.

    Args:
        kind: The format, not ``NONE``.
        level: From 1, fast, to 9, small; each format has its own levels for them.

    Raises:
        CodecMissing: The library of this format is not installed.
        ValueError: The kind is ``NONE``.
    """
    if kind is Compression.LZ4:
        # Java's reader of frames refuses blocks that depend on their neighbours.
        return partial(
            _lz4_frame().compress,
            compression_level=0 if level < _LZ4_HIGH_LEVEL_MIN else level,
            block_linked=False,
        )
    if kind is Compression.ZSTD:
        compressor = _zstandard().ZstdCompressor(level=level)
        compress_zstd: Callable[[Any], bytes] = compressor.compress
        return compress_zstd
    if kind is Compression.ZLIB:
        return partial(zlib.compress, level=level)
    raise ValueError("there is nothing to compress with")


class BodyPacking:
    """Compresses large bodies, one by one; ``packed_columns`` does it by column."""

    def __init__(self, kind: Compression, level: int, *, size_bytes_min: int) -> None:
        """Choose the format.

        Args:
            kind: The format, or ``NONE``.
            level: From 1, fast, to 9, small.
            size_bytes_min: Smaller bodies are stored as they are.

        Raises:
            CodecMissing: The library of the format is not installed.
        """
        self.is_off = kind is Compression.NONE
        """Whether no body is ever compressed."""
        self.size_bytes_min = _NEVER_BYTES if self.is_off else size_bytes_min
        """Smaller bodies are stored as they are."""
        self.system_flag = kind.system_flag
        """The bits of the system flag of a compressed body."""
        self.compress = bytes if self.is_off else body_compressor(kind, level)
        """Compresses a body, without Python code."""

    def packed(self, body: ByteBuffer) -> tuple[ByteBuffer, int]:
        """Compress a large body, unless that makes it larger.

        Returns:
            The body as it is to be stored, and the bits of the system flag that say how.
        """
        compressed = self.compress(body)
        return (compressed, self.system_flag) if len(compressed) < len(body) else (body, 0)


def original_body(
    stored: bytes, system_flag: int, *, size_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The decompressed body of a message.

    Args:
        stored: The body as stored.
        system_flag: The system flag of its record.
        size_bytes_max: The most bytes of the decompressed body.

    Raises:
        BodyDamaged: It cannot be decompressed, or grows beyond the limit.
        CodecMissing: The library of its format is not installed.
    """
    if not system_flag & _COMPRESSED:
        return stored
    kind = system_flag & COMPRESSION_TYPE_MASK
    decompress = _DECOMPRESS.get(kind)
    if decompress is None:
        raise BodyDamaged(f"compression type {kind >> 8} is unknown")
    return decompress(stored, size_bytes_max)


def _decompress_zlib(stored: bytes, size_bytes_max: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(stored, size_bytes_max + 1)
    except zlib.error as error:
        raise BodyDamaged(f"zlib: {error}") from error
    _check_growth(len(body), size_bytes_max)
    if not stream.eof or stream.unused_data:
        raise BodyDamaged("zlib: the stream does not end where the body does")
    return body


def _decompress_lz4(stored: bytes, size_bytes_max: int) -> bytes:
    stream = _lz4_frame().LZ4FrameDecompressor()
    try:
        body: bytes = stream.decompress(stored, max_length=size_bytes_max + 1)
    except RuntimeError as error:
        raise BodyDamaged(f"lz4: {error}") from error
    _check_growth(len(body), size_bytes_max)
    if not stream.eof or stream.unused_data:
        raise BodyDamaged("lz4: the frame does not end where the body does")
    return body


def _decompress_zstd(stored: bytes, size_bytes_max: int) -> bytes:
    zstandard = _zstandard()
    try:
        # Frames of streams, as Java writes them, do not have the size of their content.
        announced = zstandard.frame_content_size(stored)
        _check_growth(announced, size_bytes_max)
        stream = zstandard.ZstdDecompressor(max_window_size=_DECOMPRESSED_ZSTD_WINDOW_MAX)
        body: bytes = stream.decompress(
            stored, max_output_size=size_bytes_max, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise BodyDamaged(f"zstd: {error}, or more than {size_bytes_max} bytes") from error
    return body


_DECOMPRESS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    0: _decompress_zlib,
    int(SystemFlag.COMPRESSION_LZ4): _decompress_lz4,
    int(SystemFlag.COMPRESSION_ZSTD): _decompress_zstd,
    int(SystemFlag.COMPRESSION_ZLIB): _decompress_zlib,
}


def _check_growth(size_bytes: int, size_bytes_max: int) -> None:
    if size_bytes > size_bytes_max:
        raise BodyDamaged(f"it grows beyond {size_bytes_max} bytes")


def _lz4_frame() -> Any:
    try:
        import lz4.frame  # type: ignore[import-untyped]  # noqa: PLC0415 - loaded when needed.
    except ImportError as error:
        raise CodecMissing("lz4 is not installed: ariane-record[compression]") from error
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415 - loaded when needed.
    except ImportError as error:
        raise CodecMissing("zstandard is not installed: ariane-record[compression]") from error
    return zstandard
