"""Header fields as octets (HPACK, RFC 7541).

We write every field as a literal that is not indexed, or by its number in the static table. So a
block depends on no state of the connection: it is encoded once and serves for ever.

::

    not indexed, new name             not indexed, name 1..14 of the static table
    | 0x00 | length | name | length | value     | 0x0i | length | value
"""

from __future__ import annotations

from typing import Final

TABLE_OFF: Final = b"\x20"
"""Says that we use no dynamic table; before the first field of a connection."""

METHOD_POST: Final = b"\x83"
SCHEME_HTTP: Final = b"\x86"
SCHEME_HTTPS: Final = b"\x87"
STATUS_200: Final = b"\x88"
_AUTHORITY: Final = b"\x01"
_PATH: Final = b"\x04"
_STATUS: Final = b"\x08"


def literal(name: bytes, value: bytes) -> bytes:
    """One field."""
    if len(name) < 127 and len(value) < 127:
        return b"".join((b"\0", bytes((len(name),)), name, bytes((len(value),)), value))
    return b"".join((b"\0", length_octets(len(name)), name, length_octets(len(value)), value))


def authority(value: str) -> bytes:
    """The field ``:authority``."""
    return _AUTHORITY + _text(value.encode())


def path(value: str) -> bytes:
    """The field ``:path``."""
    return _PATH + _text(value.encode())


def http_status(code: int) -> bytes:
    """The field ``:status``."""
    return _STATUS + _text(b"%d" % code)


def _text(value: bytes) -> bytes:
    return length_octets(len(value)) + value


def length_octets(count: int) -> bytes:
    """A number with a prefix of seven bits."""
    if count < 127:
        return bytes((count,))
    octets = [127]
    count -= 127
    while count >= 128:
        octets.append(count & 127 | 128)
        count >>= 7
    octets.append(count)
    return bytes(octets)
