"""The properties of a record: ``name 0x01 value 0x02``, repeated, in UTF-8.

Names and values must not contain the separators and must not be empty: readers of the field skip
such pairs, so they would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ariane_record.errors import IllegalProperty
from ariane_record.layout import ByteBuffer

_NAME_END: Final = "\x01"
_VALUE_END: Final = "\x02"


def properties_text(properties: Mapping[str, str]) -> str:
    """The properties as one text, in the order of the mapping.

    Raises:
        IllegalProperty: A name or value is empty or holds a separator.
    """
    if not properties:
        return ""
    text = _VALUE_END.join(map(_NAME_END.join, properties.items())) + _VALUE_END
    count = len(properties)
    # An empty name is at the start or after a value; an empty value is after a name.
    if (
        text.count(_NAME_END) != count
        or text.count(_VALUE_END) != count
        or "\x01\x02" in text
        or "\x02\x01" in text
        or text.startswith(_NAME_END)
    ):
        raise _illegal(properties)
    return text


def _illegal(properties: Mapping[str, str]) -> IllegalProperty:
    """The error, with the name of the illegal pair."""
    for name, value in properties.items():
        for text in (name, value):
            if not text:
                return IllegalProperty(f"property {name!r}: empty names and values are not kept")
            if _NAME_END in text or _VALUE_END in text:
                return IllegalProperty(f"property {name!r}: holds a separator, 0x01 or 0x02")
    raise AssertionError("every property is legal")


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The properties as bytes, in the order of the mapping.

    Raises:
        IllegalProperty: A name or value is empty, holds a separator or is not Unicode text.
    """
    try:
        return properties_text(properties).encode()
    except UnicodeEncodeError as error:
        raise IllegalProperty(f"no Unicode text: {error}") from error


def decode_properties(encoded: ByteBuffer) -> dict[str, str]:
    """The properties of a record, in their order; of a repeated name the last one counts.

    Pairs without a name, a value or a separator between them are skipped, as in Java readers. Bytes
    that are not UTF-8 become replacement characters: the record is otherwise valid.
    """
    properties: dict[str, str] = {}
    for pair in str(encoded, "utf-8", "replace").split(_VALUE_END):
        name, _, value = pair.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def property_finder(name: str) -> Callable[[bytes], str]:
    """A function that returns the value of one property, or an empty text.

    The result is the same as with ``decode_properties``, several times faster than decoding all
    properties.
    """
    first = name.encode() + b"\x01"
    later = b"\x02" + first

    def find(encoded: bytes) -> str:
        end = len(encoded)
        while True:
            # The last one counts, so the search runs backwards.
            before = encoded.rfind(later, 0, end)
            if before >= 0:
                start = before + len(later)
            elif encoded.startswith(first):
                start = len(first)
            else:
                return ""
            stop = encoded.find(b"\x02", start)
            value = encoded[start:stop] if stop >= 0 else encoded[start:]
            if value or before < 0:
                return str(value, "utf-8", "replace")
            end = before + 1

    return find
