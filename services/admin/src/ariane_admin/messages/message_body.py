"""The body of a message as its producer sent it, compressed or not in the store."""

from __future__ import annotations

from typing import Final

from ariane.common.v1.message_pb2 import (
    COMPRESSION_LZ4,
    COMPRESSION_UNSPECIFIED,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    Message,
)
from ariane_admin.errors import CommandFailed
from ariane_record.errors import BodyDamaged
from ariane_record.single.compression import Compression, original_body

COMPRESSIONS: Final = {
    COMPRESSION_UNSPECIFIED: Compression.NONE,
    COMPRESSION_LZ4: Compression.LZ4,
    COMPRESSION_ZSTD: Compression.ZSTD,
    COMPRESSION_ZLIB: Compression.ZLIB,
}


def body_of(message: Message) -> bytes:
    """The body, decompressed.

    Raises:
        CommandFailed: It cannot be decompressed.
    """
    kind = COMPRESSIONS[message.compression]
    try:
        return original_body(message.body, kind.system_flag)
    except BodyDamaged as error:
        raise CommandFailed(f"the {kind.value} body cannot be read: {error}") from error
