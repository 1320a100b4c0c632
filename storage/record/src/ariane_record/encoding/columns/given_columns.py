"""A caller's Arrow arrays, checked and converted to one form, column by column.

The allowed types of each, and the meaning of null, are listed in ``message_columns``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.encoding.columns.arrow_texts import (
    is_ascii,
    is_octets,
    is_textual,
    own_octets,
    valid,
)
from ariane_record.encoding.message_properties import KEYS_MAX, OWN_ARGUMENTS
from ariane_record.errors import IllegalColumn
from ariane_record.layout import KEY_SEPARATOR

_CONTROL_CHARACTERS: Final = r"\p{Cc}"
_SPACE: Final = 0x20
_DELETE: Final = 0x7F


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of texts, or of pairs of texts, for each row."""

    bounds: NDArray[np.int64]
    """The begin of each row's list, and the end of the last: int64, from 0 on."""
    children: tuple[Any, ...]
    """The texts of all rows; pairs have two such arrays."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Elements of each list."""
        return np.diff(self.bounds)

    def slice(self, start: int, stop: int) -> Self:
        """The lists of some neighbouring rows."""
        bounds = self.bounds[start : stop + 1]
        first, end = int(bounds[0]), int(bounds[-1])
        children = tuple(child.slice(first, end - first) for child in self.children)
        return type(self)(bounds - first, children)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """The lists of any rows."""
        counts = self.counts[rows]
        bounds = np.concatenate(([0], np.cumsum(counts)))
        positions = np.arange(bounds[-1]) + np.repeat(self.bounds[rows] - bounds[:-1], counts)
        children = tuple(child.take(pa.array(positions)) for child in self.children)
        return type(self)(bounds, children)

    def row_of(self, position: int) -> int:
        """The row of an element of the children."""
        return int(np.searchsorted(self.bounds, position, side="right")) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """A tag for each row."""

    names: Any
    """The different tags; the last one is empty."""
    places: NDArray[np.int32]
    """The index of each row's tag among them: int32."""


def checked_bodies(array: Any) -> Any:
    """Bodies, as binary or large binary.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    kind = array.type
    if not is_octets(kind):
        raise IllegalColumn("body", f"{kind}; binary or string is expected")
    if array.null_count:
        row = int(np.argmin(valid(array)))
        raise IllegalColumn("body", "null; a message has a body, which may be empty", row)
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return array.cast(pa.large_binary() if large else pa.binary())


def _texts(column: str, array: Any) -> Any:
    """Texts with 32-bit offsets, valid UTF-8, without control characters; nulls stay."""
    kind = array.type
    if pa.types.is_dictionary(kind) and is_textual(kind.value_type):
        array = array.dictionary_decode()
    elif not is_textual(kind):
        raise IllegalColumn(column, f"{kind}; string is expected")
    array = array.cast(pa.string())
    octets = own_octets(array)
    ascii_only = is_ascii(array)
    if not ascii_only:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise IllegalColumn(column, f"no UTF-8: {error}") from None
    if not ascii_only or bool(((octets < _SPACE) | (octets == _DELETE)).any()):
        wrong = pc.match_substring_regex(array, _CONTROL_CHARACTERS)
        _refuse_any(column, wrong, "holds a control character")
    return array


def _refuse_any(column: str, wrong: Any, reason: str, lists: Lists | None = None) -> None:
    """Refuse the first wrong element, if there is one."""
    flags = wrong.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    if flags.any():
        position = int(np.argmax(flags))
        raise IllegalColumn(column, reason, position if lists is None else lists.row_of(position))


def checked_tags(array: Any) -> Tags:
    """Tags, each name once.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    kind = array.type
    if not pa.types.is_dictionary(kind):
        array = _texts("tag", array).dictionary_encode()
    elif not is_textual(kind.value_type):
        raise IllegalColumn("tag", f"{kind}; string, or a dictionary of strings, is expected")
    names = array.dictionary.cast(pa.string()).fill_null("")
    places = array.indices.cast(pa.int32()).fill_null(len(names)).to_numpy()
    names = pa.concat_arrays([names, pa.array([""], pa.string())])
    try:
        _texts("tag", names)
    except IllegalColumn as error:
        rows = np.flatnonzero(places == error.row)
        raise IllegalColumn("tag", error.reason, int(rows[0]) if len(rows) else None) from None
    return Tags(names, places)


def checked_keys(array: Any) -> Lists:
    """Keys: a list of texts for each row.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    kind = array.type
    if is_textual(kind):
        texts = array.cast(pa.string())
        some = pc.fill_null(pc.not_equal(texts, ""), fill_value=False)
        present = some.to_numpy(zero_copy_only=False)
        lists = Lists(np.concatenate(([0], np.cumsum(present))), (texts.filter(some),))
    elif _is_list(kind) and is_textual(kind.value_type):
        lists = _lists(array)
    else:
        raise IllegalColumn("keys", f"{kind}; list<string>, or string for one key, is expected")
    keys = _children_texts("keys", lists)[0]
    _refuse_any("keys", pc.equal(keys, ""), "an empty key", lists)
    if (own_octets(keys) == ord(KEY_SEPARATOR)).any():
        _refuse_any("keys", pc.match_substring(keys, KEY_SEPARATOR), "a key holds a space", lists)
    counts = lists.counts
    if len(counts) and int(counts.max()) >= KEYS_MAX:
        reason = f"{counts.max()} keys; {KEYS_MAX - 1} are allowed"
        raise IllegalColumn("keys", reason, int(np.argmax(counts)))
    return Lists(lists.bounds, (keys,))


def checked_groups(array: Any) -> Any:
    """Message groups, empty for none.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    return _texts("message_group", array).fill_null("")


def checked_properties(array: Any) -> Lists:
    """Properties: names and values for each row.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    kind = array.type
    if not (pa.types.is_map(kind) and is_textual(kind.key_type) and is_textual(kind.item_type)):
        raise IllegalColumn("properties", f"{kind}; map<string, string> is expected")
    lists = _lists(array)
    names, values = _children_texts("properties", lists)
    for texts in (names, values):
        _refuse_any("properties", pc.equal(texts, ""), "an empty name or value", lists)
    encoded = names.dictionary_encode()
    own = OWN_ARGUMENTS.intersection(encoded.dictionary.to_pylist())
    if own:
        wrong = pc.is_in(names, pa.array(sorted(own)))
        reason = f"{', '.join(sorted(own))}: not a property to set by name"
        _refuse_any("properties", wrong, reason, lists)
    _refuse_repeated(encoded.indices.to_numpy(), lists)
    return Lists(lists.bounds, (names, values))


def _refuse_repeated(names: NDArray[np.int32], lists: Lists) -> None:
    """Refuse a row that has one name twice: readers keep only the last one."""
    rows = np.repeat(np.arange(len(lists.counts)), lists.counts)
    marks = rows * (int(names.max(initial=0)) + 1) + names
    _, first = np.unique(marks, return_index=True)
    if len(first) < len(marks):
        again = np.setdiff1d(np.arange(len(marks)), first)
        raise IllegalColumn("properties", "a name twice", int(rows[again[0]]))


def checked_flags(array: Any) -> NDArray[np.int32]:
    """Flags, 0 for none.

    Raises:
        IllegalColumn: The column has another type, or a row of it is wrong.
    """
    if not pa.types.is_integer(array.type):
        raise IllegalColumn("flag", f"{array.type}; int32 is expected")
    try:
        flags: NDArray[np.int32] = array.cast(pa.int32()).fill_null(0).to_numpy()
    except pa.ArrowInvalid as error:
        raise IllegalColumn("flag", str(error)) from None
    return flags


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _lists(array: Any) -> Lists:
    """The lists or maps of an array; null has no elements."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.list_(kind.value_type))
    counts = np.zeros(len(array), np.int64)
    present = valid(array)
    # Nulls may have elements in Arrow; without nulls, offsets match the elements.
    some = array.drop_null() if array.null_count else array
    offsets = some.offsets.to_numpy()
    counts[present] = np.diff(offsets)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    parts = (some.keys, some.items) if pa.types.is_map(kind) else (some.values,)
    children = tuple(part.slice(first, count) for part in parts)
    return Lists(np.concatenate(([0], np.cumsum(counts))), children)


def _children_texts(column: str, lists: Lists) -> tuple[Any, ...]:
    """The texts of lists, without nulls."""
    texts = []
    for child in lists.children:
        try:
            text = _texts(column, child)
        except IllegalColumn as error:
            row = None if error.row is None else lists.row_of(error.row)
            raise IllegalColumn(column, error.reason, row) from None
        _refuse_any(column, pc.is_null(text), "null inside", lists)
        texts.append(text)
    return tuple(texts)
