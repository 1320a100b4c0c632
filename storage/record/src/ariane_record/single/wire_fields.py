"""The fields of an encoded Protocol Buffers message, one after the other, without copies.

The generated code copies a block once when it parses a message and twice when it writes one. The
fields of a message may have any order and may be joined as bytes. So records are cut out of
messages, or put beside the other encoded fields, and the generated code processes the rest.

::

    field     tag, value                       tag = number << 3 | wire type, a varint
    value     of VARINT   a varint: 7 bits a byte, the lowest first; 0x80: another follows
              of LENGTH   length, then as many bytes
              of FIXED32  4 bytes              of FIXED64  8 bytes

Source: the encoding of Protocol Buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import pack
from typing import Final, NamedTuple

from ariane_record.errors import WireCorrupted

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10
_ANOTHER: Final = 0x80
"""From this octet on, another one of the number follows."""


class WireField(NamedTuple):
    """A field of an encoded message."""

    tag: int
    """Number and wire type, as encoded."""
    whole: memoryview
    """The whole field."""
    value: memoryview
    """The bytes of a field with a length; for others, their encoded value."""


def fields_of(message: memoryview) -> Iterator[WireField]:
    """The fields of a message, in their order.

    Raises:
        WireCorrupted: It is not a message, or has groups, which ArianeMQ's contracts do not use.
    """
    place, end = 0, len(message)
    while place < end:
        begin = place
        # Most tags and many lengths are of one byte: a call for each would cost more than they do.
        tag = message[place]
        place += 1
        if tag >= _ANOTHER:
            tag, place = _read_varint(message, begin)
        wire_type = tag & 7
        value = place
        if wire_type == _LENGTH:
            if place < end and (length := message[place]) < _ANOTHER:
                value += 1
            else:
                length, value = _read_varint(message, place)
            place = value + length
        elif wire_type == _VARINT:
            _, place = _read_varint(message, place)
        elif wire_type == _FIXED32:
            place += 4
        elif wire_type == _FIXED64:
            place += 8
        else:
            raise WireCorrupted(f"wire type {wire_type}")
        if place > end:
            raise WireCorrupted("a field reaches beyond its message")
        yield WireField(tag, message[begin:place], message[value:place])


def length_tag(number: int) -> int:
    """The tag of a field with a length."""
    return number << 3 | _LENGTH


def number_tag(number: int) -> int:
    """The tag of a field with a number."""
    return number << 3 | _VARINT


def length_prefix(tag: int, length: int) -> bytes:
    """The bytes before the value of a field with a length."""
    return varint(tag) + varint(length)


def int32s(numbers: Sequence[int]) -> bytes:
    """A column of packed numbers, little-endian."""
    return pack(f"<{len(numbers)}i", *numbers)


def int64s(numbers: Sequence[int]) -> bytes:
    """A column of packed numbers, little-endian."""
    return pack(f"<{len(numbers)}q", *numbers)


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number, and its end."""
    number = 0
    for count in range(_VARINT_BYTES_MAX):
        if place >= len(message):
            break
        octet = message[place]
        place += 1
        number |= (octet & 0x7F) << 7 * count
        if octet < 0x80:
            return number, place
    raise WireCorrupted("a number does not end")


def varint(number: int) -> bytes:
    """A number of 0 or more, encoded."""
    if number < 0x80:
        return number.to_bytes(1)
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
