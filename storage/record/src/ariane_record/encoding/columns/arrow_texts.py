"""Texts and bytes of Arrow arrays as numpy arrays: octets, offsets, lengths, Java hashes.

All functions accept arrays that are slices of others, too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.checksums.java_hash import (
    hash_units,
    java_string_hashes,
    key_hashes_behind,
    row_hashes,
    topic_word,
)

_LARGE: Final = (pa.types.is_large_binary, pa.types.is_large_string)
_EVEN_BYTES_MAX: Final = 256


def is_textual(kind: pa.DataType) -> bool:
    """Whether elements are texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_octets(kind: pa.DataType) -> bool:
    """Whether elements are texts or bytes."""
    return bool(
        is_textual(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def bounds_of(array: Any) -> NDArray[np.integer[Any]]:
    """The begin of each element in the octets of the array, and then the end of the last.

    Args:
        array: Strings or binaries with offsets, large or not.

    Returns:
        len(array) + 1 numbers, the first of them not necessarily 0; without a copy.
    """
    offsets = array.buffers()[1]
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int32)
    large = any(check(array.type) for check in _LARGE)
    every: NDArray[np.integer[Any]] = np.frombuffer(offsets, np.int64 if large else np.int32)
    return every[array.offset : array.offset + len(array) + 1]


def lengths_of(array: Any) -> NDArray[np.int64]:
    """Bytes of each element: int64; 0 for null."""
    lengths = np.diff(bounds_of(array)).astype(np.int64, copy=False)
    if array.null_count:
        lengths[~valid(array)] = 0
    return lengths


def octets_of(array: Any) -> NDArray[np.uint8]:
    """The octets to which the bounds of an array refer, from the start of its buffer on."""
    buffer = array.buffers()[2]
    return np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)


def own_octets(array: Any) -> NDArray[np.uint8]:
    """The octets of the elements, one after the other; octets of nulls may be between them."""
    bounds = bounds_of(array)
    return octets_of(array)[int(bounds[0]) : int(bounds[-1])]


def valid(array: Any) -> NDArray[np.bool_]:
    """Which elements are not null."""
    flags: NDArray[np.bool_] = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return flags


def is_ascii(array: Any) -> bool:
    """Whether all octets of an array are ASCII."""
    return bytes(own_octets(array).data).isascii()


def binaries(octets: Any, bounds: NDArray[np.integer[Any]], kind: pa.DataType | None = None) -> Any:
    """An array over existing octets, by the bounds of its elements.

    Args:
        octets: The octets; not copied.
        bounds: One more number than elements, below 2 GiB.
        kind: The Arrow type; default binary.
    """
    offsets = np.ascontiguousarray(bounds, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
    return pa.Array.from_buffers(kind or pa.binary(), len(bounds) - 1, buffers)


def even_binaries(octets: NDArray[Any], width: int, kind: pa.DataType | None = None) -> Any:
    """An array of contiguous elements of the same length.

    Args:
        octets: Contiguous, ``width`` bytes for each element; not copied.
        width: Bytes of one element.
        kind: The Arrow type; default binary.
    """
    count = octets.nbytes // width
    return binaries(octets, np.arange(count + 1, dtype=np.int32) * width, kind)


def joined(*pieces: Any) -> Any:
    """Arrays and scalars of binaries, joined element by element."""
    return pc.binary_join_element_wise(*pieces, constant(b""))


def constant(octets: bytes) -> Any:
    """Bytes that are the same for every element."""
    return pa.scalar(octets, pa.binary())


def java_hashes(texts: Any) -> NDArray[np.int32]:
    """Java's hash of each text of an array without nulls: int32.

    ASCII is processed by numpy as a whole, other texts one by one.
    """
    if not is_ascii(texts):
        return java_string_hashes(texts.to_pylist())
    bounds = bounds_of(texts)
    lengths = np.diff(bounds).astype(np.int64, copy=False)
    if not len(lengths):
        return np.empty(0, np.int32)
    octets = own_octets(texts)
    width = int(lengths[0])
    if 0 < width <= _EVEN_BYTES_MAX and (lengths == width).all():
        return row_hashes(octets.reshape(-1, width)).view(np.int32)
    return hash_units(octets, lengths).view(np.int32)


def index_hashes(topic: str, keys: Any) -> NDArray[np.int32]:
    """``java_hash.key_hash`` of each key of an array without nulls: int32, not negative.

    Args:
        topic: The topic of all.
        keys: The keys, each shorter than ``CHUNK_UNITS``, as the properties of a record are.
    """
    words = java_hashes(keys).view(np.uint32)
    units = lengths_of(keys) if is_ascii(keys) else _units(keys)
    return key_hashes_behind(topic_word(topic), words, units)


def _units(texts: Any) -> NDArray[np.int64]:
    """UTF-16 units of each text; characters beyond the basic plane have two, and four octets."""
    units: NDArray[np.int64] = pc.utf8_length(texts).to_numpy().astype(np.int64)
    far = np.concatenate(([0], np.cumsum(own_octets(texts) >= 0xF0)))
    bounds = bounds_of(texts)
    units += np.diff(far[bounds - bounds[0]])
    return units
