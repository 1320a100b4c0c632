"""Header fields as octets (HPACK, RFC 7541).

We write every field as a literal that is not indexed, or by its number in the static table. So a
block depends on no state of the connection: it is encoded once and serves for ever.

::

    not indexed, new name             not indexed, name 1..14 of the static table
    | 0x00 | length | name | length | value     | 0x0i | length | value
"""

from __future__ import annotations

import re
from math import ceil
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

TIMEOUT_FIELD: Final = b"\x00\x0cgrpc-timeout"

_FORM: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")

_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

_DIGITS: Final = 3

_DIGITS_MAX: Final = 8


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


def timeout_field(seconds: float) -> bytes:
    """A timeout, greater than zero, as a piece of a header block.

    It is rounded up to three digits, by less than a hundredth: so that the same few blocks repeat,
    which the other end finds without parsing them. This end keeps to the exact one.
    """
    micros = ceil(seconds * 1e6 - 1e-3)
    if micros < 100_000:
        value = b"%du" % _rounded(micros)
    else:
        millis = _rounded(-(-micros // 1000))
        if millis < 10**_DIGITS_MAX:
            value = b"%dm" % millis
        else:
            value = b"%dS" % min(-(-millis // 1000), 10**_DIGITS_MAX - 1)
    return TIMEOUT_FIELD + bytes((len(value),)) + value


def _rounded(number: int) -> int:
    spare = len(str(number)) - _DIGITS
    if spare <= 0:
        return max(number, 1)
    step: int = 10**spare
    return -(-number // step) * step


def parse_timeout(value: bytes) -> float:
    """Seconds of a field's value.

    Raises:
        ValueError: It has another form.
    """
    match = _FORM.fullmatch(value)
    if match is None:
        raise ValueError(f"timeout {value[:20]!r}")
    return int(match[1]) * _SECONDS[match[2]]
