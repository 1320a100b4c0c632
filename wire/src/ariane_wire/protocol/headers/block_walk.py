"""A look at a header block before it is read: what it will cost, and its strings decoded.

What a block says is read by ``hpack``, which is slow at what a hostile peer would send: long
strings coded by Huffman, and thousands of fields. Here each field costs a step, and no string is
decoded beyond the limit.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ariane_wire.protocol.headers import huffman
from ariane_wire.protocol.headers.header_fields import length_octets

FIELD_OCTETS: Final = 32
"""What RFC 9113 counts for a field beside its name and value."""

SIZE_UPDATES_MAX: Final = 2
"""Of a table, at the beginning of a block: the smallest size since the last block, and the last."""

_CODED_FACTOR: Final = 4
"""No symbol has more than 30 bits: a string has at least a quarter of its coded octets."""

_NUMBER_OCTETS_MAX: Final = 5


Span: TypeAlias = tuple[int, int, bool]
"""Where a string begins and ends, and whether it is coded by Huffman."""


class TooManyFields(Exception):
    """The fields of a block have more octets than we take."""


def plain_block(block: bytes, octets_max: int) -> tuple[bytes, int]:
    """Return a block that says the same without Huffman, and how many fields it has.

    Args:
        block: As it came.
        octets_max: What its fields may have, as RFC 9113 counts them. Fields that the block takes
            from a table are counted without their octets, which are not known here.

    Raises:
        TooManyFields: They are more.
        ValueError: It is no block, or has too many changes of the table's size.
    """
    at, end = 0, len(block)
    octets = fields = updates = 0
    pieces: list[bytes] = []
    kept = 0
    """Up to here all is in ``pieces``."""
    while at < end:
        first = block[at]
        if first & 0xE0 == 0x20:
            updates += 1
            if updates > SIZE_UPDATES_MAX:
                raise ValueError("too many changes of a table's size")
            _, at = _number(block, at, 0x1F)
            continue
        fields += 1
        octets += FIELD_OCTETS
        if first & 0x80:
            _, at = _number(block, at, 0x7F)
            strings = 0
        else:
            index, at = _number(block, at, 0x3F if first & 0x40 else 0x0F)
            strings = 1 if index else 2
        for _ in range(strings):
            begin = at
            at, stop = _string(block, at)
            if block[begin] & 0x80:
                if stop - at > _CODED_FACTOR * octets_max:
                    raise TooManyFields
                text = huffman.decode(block[at:stop])
                pieces += (block[kept:begin], length_octets(len(text)), text)
                kept = stop
                octets += len(text)
            else:
                octets += stop - at
            at = stop
        if octets > octets_max:
            raise TooManyFields
    if not pieces:
        return block, fields
    pieces.append(block[kept:])
    return b"".join(pieces), fields


def value_spans(block: bytes) -> list[Span | None]:
    """Where the value of each field begins and ends, and whether it is coded by Huffman.

    Args:
        block: One that ``plain_block`` has taken.

    Returns:
        None for a field that is taken from a table as a whole.
    """
    spans: list[Span | None] = []
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0xE0 == 0x20:
            _, at = _number(block, at, 0x1F)
        elif first & 0x80:
            _, at = _number(block, at, 0x7F)
            spans.append(None)
        else:
            index, at = _number(block, at, 0x3F if first & 0x40 else 0x0F)
            if not index:
                _, at = _string(block, at)
            coded = block[at] & 0x80 != 0
            begin, at = _string(block, at)
            spans.append((begin, at, coded))
    return spans


def _string(block: bytes, at: int) -> tuple[int, int]:
    """Where a string begins behind its length, and where it ends.

    Raises:
        ValueError: Beyond the block.
    """
    if at < len(block):
        length, at = _number(block, at, 0x7F)
        if at + length <= len(block):
            return at, at + length
    raise ValueError("a string beyond the end of its block")


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number whose first octet has a prefix, and where it ends.

    Raises:
        ValueError: It does not end, or is too large.
    """
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _NUMBER_OCTETS_MAX, 7):
        if at >= len(block):
            break
        octet = block[at]
        at += 1
        number += (octet & 0x7F) << shift
        if octet < 0x80:
            return number, at
    raise ValueError("a number without an end")
