"""The keys of many records by column, but for their topics, as RocketMQ 5.5 files them.

::

    UNIQ_KEY 0x01 7F00..01 0x02    KEYS 0x01 order-7 customer-3 0x02    TAGS 0x01 paid 0x02
                  7F00..01                   order-7 customer-3              T#paid

Appends file no tags: our readers find tags by the consume queues, and one more item for every
message would serve only RocketMQ's own queries. Keys that are not ASCII, and several KEYS in one
record, are read record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_ordering import java_string_hash
from ariane_record import PropertyName
from ariane_record.checksums.java_hash import (
    POWERS,
    hash_units,
    java_string_hashes,
    row_hashes,
)
from ariane_record.layout import KEY_SEPARATOR
from ariane_record.single.message import split_keys
from ariane_record.single.properties import property_finder
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.records.property_search import (
    SearchedName,
    value_octets,
    values_anywhere,
    values_in_one_place,
)

_UNIQUE_ID: Final = SearchedName(PropertyName.UNIQUE_ID, "Q")
_KEYS: Final = SearchedName(PropertyName.KEYS, "K")
_TAGS: Final = SearchedName(PropertyName.TAGS, "G")
_SEPARATOR: Final = ord(KEY_SEPARATOR)
_FEW_RECORDS: Final = 4
"""With so few records, such as the first ones of batches, reading one by one is faster."""
_TAG_PREFIX: Final = "T#"
_TAG_WORD: Final = np.uint32(java_string_hash(_TAG_PREFIX))

_find_unique_id = property_finder(PropertyName.UNIQUE_ID)
_find_keys = property_finder(PropertyName.KEYS)
_find_tag = property_finder(PropertyName.TAGS)


class RecordKeys(NamedTuple):
    """Keys of records; the keys of one record are neighbours."""

    owners: Int64s
    """The record of each, ascending."""
    words: NDArray[np.uint32]
    """Java's hash of each, as an unsigned number."""
    lengths: Int64s
    """UTF-16 units of each."""

    def of(self, records: Int64s) -> RecordKeys:
        """Return the same keys with other record numbers.

        Args:
            records: The number of each record.
        """
        return RecordKeys(records[self.owners], self.words, self.lengths)


NO_KEYS: Final = RecordKeys(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.int64))


def keys_of(encoded: bytes, lengths: int | Int64s, count: int) -> RecordKeys:
    """Read the keys from the properties of many records.

    Args:
        encoded: Properties, record after record.
        lengths: Bytes of those of each record, or of all.
        count: Number of records.
    """
    if count <= _FEW_RECORDS:
        return _one_by_one(encoded, lengths, count)
    found = [
        _by_column(encoded, lengths, count, name)
        for name in (_UNIQUE_ID, _KEYS, _TAGS)
        if name.is_in(encoded)
    ]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return _one_by_one(encoded, lengths, count)
    return joined(known)


def joined(parts: Sequence[RecordKeys]) -> RecordKeys:
    """Keys of several kinds, or of several lots of records, by record."""
    if not parts:
        return NO_KEYS
    if len(parts) == 1:
        return parts[0]
    owners, words, lengths = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(owners, kind="stable")
    return RecordKeys(owners[order], words[order], lengths[order])


def _by_column(
    encoded: bytes, lengths: int | Int64s, count: int, name: SearchedName
) -> RecordKeys | None:
    """The key of each record that has the property; None if one is unusual."""
    if not encoded.isascii():
        return None
    octets = np.frombuffer(encoded, np.uint8)
    if isinstance(lengths, int):
        span = values_in_one_place(encoded, lengths, count, name)
        if span is not None:
            begin, end = span
            rows = np.ascontiguousarray(octets.reshape(count, lengths)[:, begin:end])
            if begin == end or (name is _KEYS and bool((rows == _SEPARATOR).any())):
                return None
            widths = np.full(count, end - begin, np.int64)
            return _named(name, RecordKeys(np.arange(count), row_hashes(rows), widths))
        lengths = np.full(count, lengths, np.int64)
    owners, begins, ends = values_anywhere(octets, lengths, name)
    widths = ends - begins
    units = value_octets(octets, begins, ends)
    if name is _KEYS and bool((units == _SEPARATOR).any()):
        return None
    return _named(name, RecordKeys(owners, hash_units(units, widths), widths))


def _named(name: SearchedName, keys: RecordKeys) -> RecordKeys:
    """Values of a property as keys."""
    if name is not _TAGS:
        return keys
    words = _TAG_WORD * POWERS[keys.lengths] + keys.words
    return RecordKeys(keys.owners, words, keys.lengths + len(_TAG_PREFIX))


def _one_by_one(encoded: bytes, lengths: int | Int64s, count: int) -> RecordKeys:
    sizes = [lengths] * count if isinstance(lengths, int) else lengths.tolist()
    edges = pairwise(accumulate(sizes, initial=0))
    of_each = [_keys(encoded[begin:end]) for begin, end in edges]
    keys = [key for keys in of_each for key in keys]
    if not keys:
        return NO_KEYS
    owners = np.repeat(np.arange(len(of_each)), np.fromiter(map(len, of_each), np.int64))
    units = np.fromiter((len(key.encode("utf-16-le")) >> 1 for key in keys), np.int64, len(keys))
    return RecordKeys(owners, java_string_hashes(keys).view(np.uint32), units)


def _keys(properties: bytes) -> tuple[str, ...]:
    """Keys of one message."""
    found: list[str] = []
    if unique_id := _find_unique_id(properties):
        found.append(unique_id)
    found += split_keys(_find_keys(properties))
    if tag := _find_tag(properties):
        found.append(_TAG_PREFIX + tag)
    return tuple(found)
