"""Whether the column of tag codes says what the properties of the records say.

Filters of consumers look at the codes alone, and a rebuilt consume queue has those that follow from
the records. A column that says something else would hide messages, and show them after a repair.

::

    ... 0x02 T A G S 0x01 a r r i v e d 0x02 ...        in the properties of a record, anywhere
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import PropertyName, tag_code
from ariane_record.checksums.java_hash import CHUNK_UNITS, hash_chunk, row_hashes
from ariane_record.layout import PROPERTY_NAME_END, PROPERTY_VALUE_END
from ariane_storage.log.fields import Int64s

TAG_NAME: Final = PropertyName.TAGS.encode() + PROPERTY_NAME_END
"""What begins a tag, if it begins a property. Few other properties have these bytes."""

_NAME_BYTES: Final = len(TAG_NAME)
_NAME: Final = np.frombuffer(TAG_NAME, np.uint8)
_RARE_LETTER: Final = b"G"
_RARE_PLACE: Final = TAG_NAME.index(_RARE_LETTER)
_END: Final = PROPERTY_VALUE_END[0]


def tag_code_of(properties: bytes) -> int:
    """The code of the tag that the properties of one record say; 0 for none."""
    place = properties.find(TAG_NAME)
    while place > 0 and properties[place - 1] != _END:
        place = properties.find(TAG_NAME, place + 1)
    if place < 0:
        return 0
    begin = place + _NAME_BYTES
    end = properties.find(PROPERTY_VALUE_END, begin)
    return _code_of(properties[begin:] if end < 0 else properties[begin:end])


@lru_cache(maxsize=4096)
def _code_of(tag: bytes) -> int:
    return tag_code(tag.decode(errors="replace"))


def tag_codes_of(encoded: bytes, lengths: int | Int64s, count: int) -> NDArray[np.int32]:
    """The codes that the properties of many records say.

    Args:
        encoded: Properties, record after record.
        lengths: Bytes of those of each record, or of all.
        count: Number of records.
    """
    # One letter is found ten times as fast as the whole, and few properties have this one.
    if _RARE_LETTER not in encoded or TAG_NAME not in encoded:
        return np.zeros(count, np.int32)
    if isinstance(lengths, int):
        codes = _codes_in_one_place(encoded, lengths, count)
        if codes is not None:
            return codes
        lengths = np.full(count, lengths, np.int64)
    return _codes_anywhere(encoded, lengths)


def _codes_in_one_place(encoded: bytes, length: int, count: int) -> NDArray[np.int32] | None:
    """Codes of tags that lie in the same place and are of one length; None if they do not."""
    place = encoded.find(TAG_NAME, 0, length)
    begin = place + _NAME_BYTES
    end = encoded.find(PROPERTY_VALUE_END, begin, length)
    if place < 0 or end < 0 or encoded.count(TAG_NAME) != count or not encoded.isascii():
        return None
    rows = np.frombuffer(encoded, np.uint8).reshape(count, length)
    tags = np.ascontiguousarray(rows[:, begin:end])
    if (
        bool((rows[:, place:begin] != _NAME).any())
        or bool((rows[:, end] != _END).any())
        or (place and bool((rows[:, place - 1] != _END).any()))
        or bool((tags == _END).any())
    ):
        return None
    if begin == end:
        return np.zeros(count, np.int32)
    return row_hashes(tags).view(np.int32)


def _codes_anywhere(encoded: bytes, lengths: Int64s) -> NDArray[np.int32]:
    """Codes of tags of any length in any place; the first one of a record counts."""
    octets = np.frombuffer(encoded, np.uint8)
    record_ends = np.cumsum(lengths)
    places = np.flatnonzero(octets == _NAME[_RARE_PLACE]) - _RARE_PLACE
    places = places[(places >= 0) & (places + _NAME_BYTES <= len(octets))]
    for position, octet in enumerate(_NAME.tolist()):
        places = places[octets[places + position] == octet]
    owners = np.searchsorted(record_ends, places, side="right")
    begins_property = (places == (record_ends - lengths)[owners]) | (octets[places - 1] == _END)
    places, owners = places[begins_property], owners[begins_property]
    is_first = np.ones(len(owners), np.bool_)
    is_first[1:] = owners[1:] != owners[:-1]
    begins, owners = places[is_first] + _NAME_BYTES, owners[is_first]
    ends = record_ends[owners]
    separators = np.flatnonzero(octets == _END)
    following = np.searchsorted(separators, begins)
    is_ended = following < len(separators)
    ends[is_ended] = np.minimum(ends[is_ended], separators[following[is_ended]])
    codes = np.zeros(len(lengths), np.int32)
    codes[owners] = _hashes(encoded, octets, begins, ends)
    return codes


def _hashes(
    encoded: bytes, octets: NDArray[np.uint8], begins: Int64s, ends: Int64s
) -> NDArray[np.int32]:
    """The code of each tag, wherever it lies."""
    widths = ends - begins
    total = int(widths.sum())
    if total > CHUNK_UNITS or not encoded.isascii():
        tags = map(encoded.__getitem__, map(slice, begins.tolist(), ends.tolist()))
        return np.fromiter(map(_code_of, tags), np.int32, len(begins))
    offsets = np.repeat(begins - (np.cumsum(widths) - widths), widths)
    return hash_chunk(octets[offsets + np.arange(total)], widths).view(np.int32)
