"""Compressed messages: gzip and deflate, as grpcio has them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import grpc

ENCODINGS: Final = ("identity", "deflate", "gzip")
ACCEPTED: Final = ", ".join(ENCODINGS)

NAMES: Final[Mapping[grpc.Compression | None, str]] = {
    None: "identity",
    grpc.Compression.NoCompression: "identity",
    grpc.Compression.Deflate: "deflate",
    grpc.Compression.Gzip: "gzip",
}

_WINDOW_BITS: Final[Mapping[str, int]] = {"gzip": 31, "deflate": 15}


class DecompressedTooLong(Exception):
    """A compressed message is longer than what is taken, once it is decompressed."""


def compress(message: bytes, encoding: str) -> bytes:
    """Compress a message."""
    packer = zlib.compressobj(wbits=_WINDOW_BITS[encoding])
    return packer.compress(message) + packer.flush()


def decompress(message: bytes | bytearray, encoding: str, octets_max: int) -> bytes:
    """Decompress a message; never makes more than one octet above the limit.

    Raises:
        DecompressedTooLong: It is longer than the limit.
        ValueError: The encoding is unknown, or the octets are none of it.
    """
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise ValueError(f"a compressed message in the encoding {encoding!r}")
    unpacker = zlib.decompressobj(wbits=bits)
    try:
        plain = unpacker.decompress(message, octets_max + 1)
    except zlib.error as error:
        raise ValueError(f"a message that is not {encoding}: {error}") from None
    if len(plain) > octets_max:
        raise DecompressedTooLong
    if not unpacker.eof:
        raise ValueError(f"a message of {encoding} that is cut off")
    return plain
