"""The body of a message as its producer gave it."""

from __future__ import annotations

from typing import Any

from ariane_record import RecordFields
from ariane_record.checksums.checksum import crc32
from ariane_record.errors import BodyDamaged
from ariane_record.single.compression import original_body


def body_facts(message: RecordFields) -> dict[str, Any]:
    """Length and CRC-32 of a body after decompression; None if it cannot be decompressed."""
    body: bytes | None
    try:
        body = original_body(message.body, message.system_flag)
    except BodyDamaged:
        body = None
    return {
        "body_length": None if body is None else len(body),
        "body_crc32": None if body is None else crc32(body),
        "stored_body_length": len(message.body),
    }
