"""Whether the column of tag codes agrees with the properties of the records.

Consumers' filters look only at the codes, and a rebuilt consume queue has the codes that follow
from the records. A column with other codes would hide messages, and show them after a repair.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import PropertyName, tag_code
from ariane_record.checksums.java_hash import hash_units, row_hashes
from ariane_record.layout import PROPERTY_VALUE_END
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.records.property_search import (
    SearchedName,
    value_octets,
    values_anywhere,
    values_in_one_place,
)

_TAGS: Final = SearchedName(PropertyName.TAGS, "G")

TAG_NAME: Final = _TAGS.encoded
"""The bytes before a tag. Few other properties contain them."""

_END: Final = PROPERTY_VALUE_END[0]


def tag_code_of(properties: bytes) -> int:
    """The code of the tag in the properties of one record; 0 for none."""
    end = len(properties)
    while (place := properties.rfind(TAG_NAME, 0, end)) >= 0:
        begin, end = place + len(TAG_NAME), place
        if place and properties[place - 1] != _END:
            continue
        stop = properties.find(PROPERTY_VALUE_END, begin)
        tag = properties[begin:] if stop < 0 else properties[begin:stop]
        if tag:
            return _code_of(tag)
    return 0


@lru_cache(maxsize=4096)
def _code_of(tag: bytes) -> int:
    return tag_code(tag.decode(errors="replace"))


def tag_codes_of(encoded: bytes, lengths: int | Int64s, count: int) -> NDArray[np.int32]:
    """The codes of the tags in the properties of many records.

    Args:
        encoded: Properties, record after record.
        lengths: Bytes of each record's properties, or of all.
        count: Number of records.
    """
    if not _TAGS.is_in(encoded):
        return np.zeros(count, np.int32)
    if isinstance(lengths, int):
        span = values_in_one_place(encoded, lengths, count, _TAGS)
        if span is not None:
            return _codes_in_one_place(encoded, lengths, count, span)
        lengths = np.full(count, lengths, np.int64)
    return _codes_anywhere(encoded, lengths)


def _codes_in_one_place(
    encoded: bytes, length: int, count: int, span: tuple[int, int]
) -> NDArray[np.int32]:
    begin, end = span
    if begin == end:
        return np.zeros(count, np.int32)
    rows = np.frombuffer(encoded, np.uint8).reshape(count, length)
    return row_hashes(np.ascontiguousarray(rows[:, begin:end])).view(np.int32)


def _codes_anywhere(encoded: bytes, lengths: Int64s) -> NDArray[np.int32]:
    octets = np.frombuffer(encoded, np.uint8)
    owners, begins, ends = values_anywhere(octets, lengths, _TAGS)
    codes = np.zeros(len(lengths), np.int32)
    codes[owners] = _hashes(encoded, octets, begins, ends)
    return codes


def _hashes(
    encoded: bytes, octets: NDArray[np.uint8], begins: Int64s, ends: Int64s
) -> NDArray[np.int32]:
    """The code of each tag, at any place."""
    if not encoded.isascii():
        tags = map(encoded.__getitem__, map(slice, begins.tolist(), ends.tolist()))
        return np.fromiter(map(_code_of, tags), np.int32, len(begins))
    return hash_units(value_octets(octets, begins, ends), ends - begins).view(np.int32)
