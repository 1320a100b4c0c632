"""Metadata of calls as header fields, and back."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from ariane_wire.protocol.headers.header_fields import literal

Pairs: TypeAlias = tuple[tuple[str, str | bytes], ...]

# What this package's servers tell its clients in trailing metadata.
SIZE_KEY: Final = "wire-size-octets"
"""How large what was too large is."""
LIMIT_KEY: Final = "wire-limit-octets"
"""And what would have been taken."""
UNPROCESSED_KEY: Final = "wire-never-processed"
"""There if no handler has begun to work on the call."""
NOTES: Final = frozenset({SIZE_KEY, LIMIT_KEY, UNPROCESSED_KEY})

_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_VALUE: Final = re.compile(rb"[\x20-\x7e]*")
_OURS: Final = frozenset({"te", "content-type", "connection", "grpc-timeout", "grpc-encoding"})
"""Fields of the protocol: nobody sets them as metadata."""
_UNESCAPED: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def encode_metadata(pairs: Iterable[tuple[str, str | bytes]]) -> bytes:
    """Metadata as a piece of a header block.

    Raises:
        ValueError: A key or value cannot be sent.
    """
    fields = []
    for key, value in pairs:
        if not _KEY.fullmatch(key) or key in _OURS:
            raise ValueError(
                f"metadata key {key!r}: lower-case letters, digits and _.- only, and none of gRPC"
            )
        octets = value.encode() if isinstance(value, str) else bytes(value)
        if key.endswith("-bin"):
            octets = b64encode(octets).rstrip(b"=")
        elif not _VALUE.fullmatch(octets):
            raise ValueError(
                f"metadata value of {key!r}: printable ASCII only; keys that end in -bin take bytes"
            )
        fields.append(literal(key.encode(), octets))
    return b"".join(fields)


def decode_pair(name: bytes, value: bytes) -> Pairs:
    """Metadata of one field; more than one where values were joined by commas.

    Raises:
        ValueError: The value of a key that ends in -bin is no Base64.
    """
    key = name.decode("latin-1")
    if not key.endswith("-bin"):
        return ((key, text(value)),)
    try:
        return tuple(
            (key, b64decode(part + b"=" * (-len(part) % 4), validate=True))
            for part in (piece.strip() for piece in value.split(b","))
        )
    except Base64Error as error:
        raise ValueError(f"value of {key}: {error}") from None


def text(value: bytes) -> str:
    """A value as text: UTF-8, or one character an octet where it is not."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def escape_message(message: str) -> bytes:
    """The text of a status as a field's value: all but printable ASCII is escaped by percent."""
    return quote(message.encode(errors="replace"), safe=_UNESCAPED).encode()


def unescape_message(value: bytes) -> str:
    """The text of a status."""
    return unquote_to_bytes(value).decode(errors="replace")


def metadata_octets(pairs: Iterable[tuple[str, str | bytes]]) -> int:
    """Size of metadata as RFC 9113 counts header lists: 32 octets a field beside its own."""
    return sum(len(key) + len(value) + 32 for key, value in pairs)
