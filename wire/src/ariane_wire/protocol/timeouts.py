"""The field ``grpc-timeout``."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

FIELD: Final = b"\x00\x0cgrpc-timeout"
_FORM: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_DIGITS: Final = 3
_DIGITS_MAX: Final = 8


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
    return FIELD + bytes((len(value),)) + value


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
