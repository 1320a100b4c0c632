"""Values of one property in the properties of many records, which lie back to back.

::

    ... 0x02 T A G S 0x01 a r r i v e d 0x02 ...        in the properties of a record, anywhere

A letter of the name is found ten times as fast as the whole name, so each name says which of its
letters is rare in properties. If a record repeats a name, its last value that is not empty counts,
as for every reader of properties (``ariane_record.single.properties``), and for RocketMQ.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.layout import PROPERTY_NAME_END, PROPERTY_VALUE_END
from ariane_storage.log.records.fields import Int64s

_END: Final = PROPERTY_VALUE_END[0]


class SearchedName:
    """The name of a property as it is searched for."""

    def __init__(self, name: str, rare_letter: str) -> None:
        self.encoded = name.encode() + PROPERTY_NAME_END
        """The name and the byte that ends it."""
        self.octets: NDArray[np.uint8] = np.frombuffer(self.encoded, np.uint8)
        self.rare_letter = rare_letter.encode()
        self.rare_place = name.index(rare_letter)

    def is_in(self, encoded: bytes) -> bool:
        """Whether it is anywhere in some properties, perhaps as the end of a longer name."""
        return self.rare_letter in encoded and self.encoded in encoded


class FoundValues(NamedTuple):
    """The places of values; at most one for each record."""

    owners: Int64s
    """The record of each, ascending."""
    begins: Int64s
    """First byte of each."""
    ends: Int64s
    """Behind the last byte of each."""


def values_in_one_place(
    encoded: bytes, length: int, count: int, name: SearchedName
) -> tuple[int, int] | None:
    """The place of a value in the properties of each record, if it is the same in all.

    It may be empty, and is the only one of its record.

    Args:
        encoded: Properties of records, each as long as the others; all ASCII, or None is returned.
        length: Bytes of each record's properties.
        count: Number of records.
        name: The property.
    """
    place = encoded.find(name.encoded, 0, length)
    begin = place + len(name.encoded)
    end = encoded.find(PROPERTY_VALUE_END, begin, length)
    if place < 0 or end < 0 or not encoded.isascii():
        return None
    if encoded.count(name.encoded) != count:
        return None
    rows = np.frombuffer(encoded, np.uint8).reshape(count, length)
    if (
        bool((rows[:, place:begin] != name.octets).any())
        or bool((rows[:, end] != _END).any())
        or (place and bool((rows[:, place - 1] != _END).any()))
        or bool((rows[:, begin:end] == _END).any())
    ):
        return None
    return begin, end


def values_anywhere(octets: NDArray[np.uint8], lengths: Int64s, name: SearchedName) -> FoundValues:
    """Where the values of a property lie, wherever that is in each record; none of them is empty.

    Args:
        octets: Properties, record after record.
        lengths: Bytes of each record's properties.
        name: The property.
    """
    name_bytes = len(name.octets)
    record_ends = np.cumsum(lengths)
    places = np.flatnonzero(octets == name.octets[name.rare_place]) - name.rare_place
    places = places[(places >= 0) & (places + name_bytes <= len(octets))]
    for position, octet in enumerate(name.octets.tolist()):
        places = places[octets[places + position] == octet]
    owners = np.searchsorted(record_ends, places, side="right")
    begins_property = (places == (record_ends - lengths)[owners]) | (octets[places - 1] == _END)
    # A match of the name may span the end of a record and the begin of the next.
    begins_property &= places + name_bytes <= record_ends[owners]
    places, owners = places[begins_property], owners[begins_property]
    begins, ends = places + name_bytes, record_ends[owners]
    separators = np.flatnonzero(octets == _END)
    following = np.searchsorted(separators, begins)
    is_ended = following < len(separators)
    ends[is_ended] = np.minimum(ends[is_ended], separators[following[is_ended]])
    is_present = begins < ends
    if not bool(is_present.all()):
        owners, begins, ends = owners[is_present], begins[is_present], ends[is_present]
    is_last = np.ones(len(owners), np.bool_)
    is_last[:-1] = owners[1:] != owners[:-1]
    if not bool(is_last.all()):
        owners, begins, ends = owners[is_last], begins[is_last], ends[is_last]
    return FoundValues(owners, begins, ends)


def value_octets(octets: NDArray[np.uint8], begins: Int64s, ends: Int64s) -> NDArray[np.uint8]:
    """The bytes of values, back to back."""
    widths = ends - begins
    total = int(widths.sum())
    places = np.repeat(begins - (np.cumsum(widths) - widths), widths)
    return octets[places + np.arange(total)]
