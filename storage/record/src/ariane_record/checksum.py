"""CRC-32 with the polynomial of zlib, computed by ISA-L.

A record costs 0.14 us where zlib takes 0.45, and a block goes at 50 GB/s where zlib does 4.
"""

from __future__ import annotations

from isal import isal_zlib

from ariane_record.layout import CRC_DIGITS, CRC_MASK, ByteBuffer

crc32 = isal_zlib.crc32
"""``crc32(buffer, value=0) -> int``: unsigned, 32 bits; ``value`` continues an earlier sum."""


def masked_crc32(buffer: ByteBuffer, value: int = 0) -> int:
    """CRC-32 without its highest bit: how the store keeps checksums of bodies and records."""
    return isal_zlib.crc32(buffer, value) & CRC_MASK


def checksum_digits(checksum: int) -> bytes:
    """The ten decimal digits of the checksum of a record, least significant first."""
    return str(checksum).zfill(CRC_DIGITS)[::-1].encode("ascii")
