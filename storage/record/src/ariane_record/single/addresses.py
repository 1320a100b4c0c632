"""Conversion of host addresses between text and the bytes of records, with a cache."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

_KNOWN_MAX: Final = 4096


@lru_cache(maxsize=_KNOWN_MAX)
def packed_ip(text: str) -> bytes:
    """The bytes of an address: 4, or 16 for IPv6.

    Raises:
        ValueError: The text is not an address.
    """
    return ip_address(text).packed


@lru_cache(maxsize=_KNOWN_MAX)
def ip_text(packed: bytes) -> str:
    """The text of an address of 4 or 16 bytes."""
    return str(ip_address(packed))
