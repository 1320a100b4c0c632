"""The bodies that everybody sends, and the digest by which they are known again.

4096 bodies of one size, sent in turn: body ``k`` is ``k`` as eight bytes, least first, and then the
bytes ``(31 * position + 7) mod 256``. What was consumed has a digest, the sum of the CRC-32 of all
bodies modulo 2^64; it and the count tell a loss, a body sent twice and a flipped bit. The drivers
make the same bodies.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final

import numpy as np

POOL_SIZE: Final = 4096
"""How many different bodies there are."""

_MASK: Final = (1 << 64) - 1


def body_pool(body_bytes: int) -> list[bytes]:
    """All different bodies of a size of at least 8 bytes."""
    positions = np.arange(8, body_bytes, dtype=np.int64)
    filling = ((positions * 31 + 7) & 0xFF).astype(np.uint8).tobytes()
    return [struct.pack("<q", number) + filling for number in range(POOL_SIZE)]


def digest_of(bodies: Iterable[bytes | memoryview]) -> int:
    """The digest of bodies that were consumed."""
    return sum(map(zlib.crc32, bodies)) & _MASK


def expected_digest(body_bytes: int, count: int) -> int:
    """The digest of the first ``count`` messages of a size."""
    sums = [zlib.crc32(body) for body in body_pool(body_bytes)]
    rounds, rest = divmod(count, POOL_SIZE)
    return (rounds * sum(sums) + sum(sums[:rest])) & _MASK
