"""The fields of an encoded Protocol Buffers message, one after the other, without copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10


class WireField(NamedTuple):
    """A field as it lies in a message.

    Attributes:
        tag: Number and wire type, as they are encoded.
        whole: All of it.
        value: What a field with a length holds; of others, their encoded value.
    """

    tag: int
    whole: memoryview
    value: memoryview


def fields_of(message: memoryview) -> Iterator[WireField]:
    """The fields of a message, in their order.

    Raises:
        DecodeError: It is no message, or has groups, which no contract of ours knows.
    """
    place, end = 0, len(message)
    while place < end:
        begin = place
        tag, place = _varint(message, place)
        wire_type = tag & 7
        value = place
        if wire_type == _LENGTH:
            length, value = _varint(message, place)
            place = value + length
        elif wire_type == _VARINT:
            _, place = _varint(message, place)
        elif wire_type == _FIXED32:
            place += 4
        elif wire_type == _FIXED64:
            place += 8
        else:
            raise DecodeError(f"wire type {wire_type}")
        if place > end:
            raise DecodeError("a field reaches beyond its message")
        yield WireField(tag, message[begin:place], message[value:place])


def length_prefix(tag: int, length: int) -> bytes:
    """What stands before the value of a field with a length."""
    return _encoded(tag) + _encoded(length)


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = 0
    for count in range(_VARINT_BYTES_MAX):
        if place >= len(message):
            break
        octet = message[place]
        place += 1
        number |= (octet & 0x7F) << 7 * count
        if octet < 0x80:
            return number, place
    raise DecodeError("a number does not end")


def _encoded(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
