"""Java's string hash, which the store uses for tags and for the keys of the index.

``java_string_hash`` hashes one text. Because the hash is a polynomial, many can be hashed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_ordering.java_hash import MULTIPLIER, java_string_hash, signed
from ariane_record.checksums.row_octets import differing_places

_WORD_MASK: Final = 0xFFFFFFFF
_SIGN_BIT: Final = 0x80000000

# The vector form processes texts in chunks of this many units, which bounds its tables. It has
# a fixed cost of some 20 us, in which the scalar form hashes the second number of units.
CHUNK_UNITS: Final = 1 << 16
_VECTOR_UNITS_MIN: Final = 256


def _powers(factor: int) -> NDArray[np.uint32]:
    factors = np.full(CHUNK_UNITS, factor, dtype=np.uint32)
    factors[0] = 1
    return np.multiply.accumulate(factors, dtype=np.uint32)


POWERS: Final = _powers(MULTIPLIER)
_INVERSE_POWERS: Final = _powers(pow(MULTIPLIER, -1, 1 << 32))


@lru_cache(maxsize=4096)
def tag_code(tag: str) -> int:
    """The hash of a tag in the consume queue; 0 means no tag."""
    return java_string_hash(tag)


def key_hash(topic: str, key: str) -> int:
    """The hash of a key in the index of a topic: 31 bits, not negative."""
    return index_hash(java_string_hash(topic + "#" + key))


def index_hash(hash_sum: int) -> int:
    """The hash of a key in the index.

    Args:
        hash_sum: The hash of topic and key, or another number with the same lowest 32 bits.
    """
    word = abs(signed(hash_sum))
    return 0 if word == _SIGN_BIT else word


def key_hashes(topic: str, keys: Sequence[str]) -> NDArray[np.int32]:
    """``key_hash`` of many keys of one topic, in their order."""
    if sum(map(len, keys)) < _VECTOR_UNITS_MIN or max(map(len, keys)) >= CHUNK_UNITS // 2:
        return np.fromiter((key_hash(topic, key) for key in keys), np.int32, len(keys))
    words, lengths = _hash_words(keys)
    return key_hashes_behind(topic_word(topic), words, lengths)


@lru_cache(maxsize=4096)
def topic_word(topic: str) -> np.uint32:
    """The hash of the index's prefix for the keys of a topic, as an unsigned number."""
    return np.uint32(java_string_hash(topic + "#") & _WORD_MASK)


def key_hashes_behind(
    prefix_words: NDArray[np.uint32] | np.uint32,
    words: NDArray[np.uint32],
    lengths: NDArray[np.int64],
) -> NDArray[np.int32]:
    """``key_hash`` of keys whose hashes are known.

    Args:
        prefix_words: ``topic_word`` of the topic of each key, or of all.
        words: Hash of each key.
        lengths: UTF-16 units of each key, fewer than ``CHUNK_UNITS``.
    """
    # hash(prefix + key) = hash(prefix) * 31 ** len(key) + hash(key)
    return index_hashes_of(prefix_words * POWERS[lengths] + words)


def index_hashes_of(words: NDArray[np.uint32]) -> NDArray[np.int32]:
    """``index_hash`` of many; changes their memory."""
    hashes = words.view(np.int32)
    np.abs(hashes, out=hashes)
    hashes[words == _SIGN_BIT] = 0
    return hashes


def java_string_hashes(texts: Sequence[str]) -> NDArray[np.int32]:
    """``java_string_hash`` of many texts, in their order."""
    return _hash_words(texts)[0].view(np.int32)


def _hash_words(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Hashes of texts and their lengths in UTF-16 units."""
    joined = "".join(texts)
    units: NDArray[np.uint8] | NDArray[np.uint16]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if joined.isascii():
        units = np.frombuffer(joined.encode("ascii"), np.uint8)
    else:
        encoded = joined.encode("utf-16-le", "surrogatepass")
        units = np.frombuffer(encoded, np.uint16)
        if len(units) != len(joined):
            lengths = np.fromiter(
                (len(text.encode("utf-16-le", "surrogatepass")) >> 1 for text in texts),
                np.int64,
                len(texts),
            )
    return hash_units(units, lengths), lengths


def hash_units(
    units: NDArray[np.uint8] | NDArray[np.uint16], lengths: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Hashes of contiguous texts of any lengths.

    Args:
        units: Their UTF-16 units; bytes of ASCII are that, too.
        lengths: Units of each.
    """
    words = np.zeros(len(lengths), np.uint32)
    ends = np.cumsum(lengths)
    first = 0
    while first < len(words):
        chunk_start = int(ends[first - 1]) if first else 0
        stop = int(np.searchsorted(ends, chunk_start + CHUNK_UNITS, side="right"))
        if stop == first:  # Longer than a chunk.
            words[first] = _hash_long(units[chunk_start : int(ends[first])])
            first += 1
            continue
        chunk = units[chunk_start : int(ends[stop - 1])]
        words[first:stop] = hash_chunk(chunk, lengths[first:stop])
        first = stop
    return words


def _hash_long(units: NDArray[np.uint8] | NDArray[np.uint16]) -> int:
    word, step = 0, CHUNK_UNITS - 1
    for begin in range(0, len(units), step):
        part = units[begin : begin + step]
        of_part = hash_chunk(part, np.array([len(part)], np.int64))
        word = (word * int(POWERS[len(part)]) + int(of_part[0])) & _WORD_MASK
    return word


def row_hashes(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Hashes of ASCII texts of one length, by the places where they differ.

    Args:
        rows: The texts, uint8[n, length], contiguous, n at least 1.
    """
    count, length = rows.shape
    first = rows[0]
    places = differing_places(rows)
    if 2 * len(places) > length:
        words = np.zeros(count, np.uint32)
        for place in range(length):
            words *= np.uint32(MULTIPLIER)
            words += rows[:, place]
        return words
    hash_of_first = java_string_hash(first.tobytes().decode("ascii")) & _WORD_MASK
    words = np.full(count, hash_of_first, np.uint32)
    for place in places:
        words += (rows[:, place].astype(np.uint32) - first[place]) * POWERS[length - 1 - place]
    return words


def hash_chunk(
    units: NDArray[np.uint8] | NDArray[np.uint16], lengths: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Hashes of the contiguous texts in ``units``, at most a chunk of them.

    If the unit at place i of the chunk is weighted by 31 ** -i (31 has an inverse modulo 2 ** 32),
    the hash of a text is a plain sum times 31 ** (end - 1).
    """
    words = np.zeros(len(lengths), np.uint32)
    filled = lengths > 0
    if not filled.any():
        return words
    ends = np.cumsum(lengths)[filled]
    weighed = units.astype(np.uint32)
    weighed *= _INVERSE_POWERS[: len(units)]
    words[filled] = np.add.reduceat(weighed, ends - lengths[filled]) * POWERS[ends - 1]
    return words
