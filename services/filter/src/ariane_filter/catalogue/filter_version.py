"""The version of an uploaded filter: a name, and the SHA-256 of its module."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.jail.limits import FilterLanguage
from ariane_servicekit import ServiceError, field_invalid

SHOWN_DIGITS: Final = 12

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,120}", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9a-f]{12,64}", re.ASCII)
_WASM_MAGIC: Final = b"\0asm"


@dataclass(frozen=True, slots=True, order=True)
class FilterVersion:
    """One version of a filter."""

    name: str
    """The filter's name."""
    sha256: str
    """SHA-256 of its module, 64 hex digits."""

    @classmethod
    def of(cls, name: str, code: bytes) -> FilterVersion:
        """The version of a module."""
        return cls(name, hashlib.sha256(code).hexdigest())

    def __str__(self) -> str:
        """The form for people, with fewer digits."""
        return f"{self.name}@{self.sha256[:SHOWN_DIGITS]}"


def language_of(code: bytes) -> FilterLanguage:
    """The language of a module: no Python source begins like WebAssembly."""
    return FilterLanguage.WASM if code.startswith(_WASM_MAGIC) else FilterLanguage.PYTHON


def checked_name(name: str) -> str:
    """Return the name of a filter if it is legal.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not _NAME.fullmatch(name):
        raise field_invalid("filter", "must be 1 to 120 characters of A-Z a-z 0-9 _ and -", name)
    return name


def checked_digits(digits: str) -> str:
    """Return the digits of a version in a request, 12 or more, if they are legal.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not _DIGITS.fullmatch(digits):
        raise field_invalid("version", "must be 12 to 64 hex digits", digits)
    return digits


def parse_filter_version(text: str) -> tuple[str, str]:
    """Name and digits of "name@version", as subscriptions write it.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    name, _, digits = text.partition("@")
    if not _NAME.fullmatch(name) or not _DIGITS.fullmatch(digits):
        raise ServiceError(
            ErrorReason.ERROR_REASON_FILTER_EXPRESSION_INVALID,
            f'filter expression {text!r}: an uploaded filter is "name@version", with 12 to 64 hex '
            "digits of its version",
            {"expression": text, "position": 0},
        )
    return name, digits
