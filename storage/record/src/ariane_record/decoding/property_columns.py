"""The properties of many records at once: the places of all names and values.

The encoded properties of all records are joined to one text, whose separators give all places::

    text         KEYS 1 k1 2 TAGS 1 TagA 2 | TAGS 1 TagB 2 | ...        a row for each record
    pair           0           1               2
    row            0           0               1

The result is the same as that of ``decode_properties``: pairs without a name, a value or a
separator between them do not exist, and of a name that is repeated in a row the last pair counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.spans import gather_spans
from ariane_record.layout import ByteBuffer

_WORD_BYTES: Final = 8
_WORD_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)  # An odd number with its bits well spread.
_FEW_PAIRS: Final = 64
_ROW_SHIFT: Final = 16  # A name is shorter than 1 << 16 bytes.

_NAME_END: Final = 1
_VALUE_END: Final = 2


class PropertyColumns:
    """All properties of many records: arrays with one element per pair, in the records' order."""

    def __init__(
        self,
        text: bytes,
        *,
        row_count: int,
        row: NDArray[np.int64],
        name_start: NDArray[np.int64],
        name_end: NDArray[np.int64],
        value_end: NDArray[np.int64],
    ) -> None:
        self.text = text
        """The properties of all records, valid UTF-8."""
        self.row_count = row_count
        """Number of records."""
        self.row = row
        """The record of each pair, int64."""
        self.name_start = name_start
        """First byte of each name in ``text``, int64."""
        self.name_end = name_end
        """One behind the last byte of each name, int64."""
        self.value_start = name_end + 1
        """First byte of each value, int64."""
        self.value_end = value_end
        """One behind the last byte of each value, int64."""
        self._places: dict[str, NDArray[np.int64]] = {}

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        """Eight bytes from every byte of the text on, as one number."""
        padded = self.text + bytes(_WORD_BYTES)
        return np.ndarray(
            shape=(len(self.text) + 1,), dtype=np.dtype("<u8"), buffer=padded, strides=(1,)
        )

    @cached_property
    def _name_words(self) -> NDArray[np.uint64]:
        """The first eight bytes of each name as one number; a shorter name ends in zeros."""
        lengths = np.minimum(self.name_end - self.name_start, _WORD_BYTES)
        words: NDArray[np.uint64] = self._words[self.name_start]
        words &= _WORD_MASKS[lengths]
        return words

    def places_of(self, name: str) -> NDArray[np.int64]:
        """The pairs with this name, ascending; searched once."""
        places = self._places.get(name)
        if places is None:
            places = self._places[name] = self._find(name.encode())
        return places

    def _find(self, name: bytes) -> NDArray[np.int64]:
        places = np.flatnonzero(self._name_words == _word_of(name[:_WORD_BYTES]))
        if len(places):
            # Few names begin alike; only for these the rest is compared.
            same = self._same(self.name_start[places], self.name_end[places], name, _WORD_BYTES)
            if not same.all():
                places = places[same]
        return places

    def _same(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64], octets: bytes, first: int = 0
    ) -> NDArray[np.bool_]:
        """Whether spans of the text equal these bytes, compared from the ``first`` byte on."""
        same: NDArray[np.bool_] = ends - starts == len(octets)
        for start in range(first, len(octets), _WORD_BYTES):
            part = octets[start : start + _WORD_BYTES]
            # After the end of a shorter span there is text or padding.
            spots = np.minimum(starts + start, len(self.text))
            same &= (self._words[spots] & _WORD_MASKS[len(part)]) == _word_of(part)
        return same

    def named(self, name: str) -> NDArray[np.bool_]:
        """Whether each pair has this name."""
        same = np.zeros(len(self.row), np.bool_)
        same[self.places_of(name)] = True
        return same

    def pair_of_each_row(self, name: str) -> NDArray[np.int64]:
        """The pair with this name in each record, or -1: int64[row_count]."""
        matches = self.places_of(name)
        rows = self.row[matches]
        if len(rows) == self.row_count and (rows == np.arange(self.row_count)).all():
            return matches
        pairs = np.full(self.row_count, -1, np.int64)
        pairs[rows] = matches  # Of repeated rows numpy keeps the last one.
        return pairs

    def last_of_each_name(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pairs whose name is not repeated later in the same record."""
        prints = self._fingerprints(pairs)
        most = int(np.bincount(self.row[pairs]).max(initial=0))
        # The largest distance of pairs of one record: few passes, instead of many for sorting.
        gaps = range(1, most)
        if most <= _FEW_PAIRS and not any((prints[gap:] == prints[:-gap]).any() for gap in gaps):
            return pairs
        # Names that seem to be repeated: rare enough to compare one by one.
        starts, ends = self.name_start[pairs].tolist(), self.name_end[pairs].tolist()
        names = map(self.text.__getitem__, map(slice, starts, ends))
        latest = dict(zip(zip(self.row[pairs].tolist(), names, strict=True), pairs, strict=True))
        return np.sort(np.fromiter(latest.values(), np.int64, len(latest)))

    def _fingerprints(self, pairs: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A number for each pair, the same for the same name in the same record.

        It is computed from the first and the last eight bytes of the name.
        """
        starts, ends = self.name_start[pairs], self.name_end[pairs]
        lengths = ends - starts
        masks = _WORD_MASKS[np.minimum(lengths, _WORD_BYTES)]
        prints: NDArray[np.uint64] = self._name_words[pairs]
        prints *= _MIXER
        prints ^= self._words[np.maximum(ends - _WORD_BYTES, starts)] & masks
        prints *= _MIXER
        prints ^= (self.row[pairs] << _ROW_SHIFT | lengths).view(np.uint64)
        return prints

    def values_equal(self, pairs: NDArray[np.int64], value: str) -> NDArray[np.bool_]:
        """Whether the value of each of some pairs is this text: bool[len(pairs)]."""
        return self._same(self.value_start[pairs], self.value_end[pairs], value.encode())

    def texts(self, pairs: NDArray[np.int64]) -> list[str]:
        """The values of some pairs."""
        starts = self.value_start[pairs].tolist()
        spans = map(slice, starts, self.value_end[pairs].tolist())
        if self.text.isascii():
            return list(map(self.text.decode("ascii").__getitem__, spans))
        return list(map(bytes.decode, map(self.text.__getitem__, spans)))


def decode_property_columns(
    records: ByteBuffer, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> PropertyColumns:
    """Decode the properties of many records.

    Args:
        records: The buffer of the records.
        starts: First byte of the properties of each record.
        lengths: Bytes of the properties of each record.
    """
    return decode_property_text(gather_spans(records, starts, lengths), lengths)


def decode_property_text(text: bytes, lengths: NDArray[np.int64]) -> PropertyColumns:
    """Decode the properties of many records.

    Args:
        text: The encoded properties of all records, back to back.
        lengths: Bytes of each record's properties.
    """
    row_end = np.cumsum(lengths)
    if not _is_sound(text, row_end, lengths):
        text, row_end = _made_sound(text, row_end)
    octets = np.frombuffer(text, np.uint8)
    value_end = np.flatnonzero(octets == _VALUE_END)
    name_end = np.flatnonzero(octets == _NAME_END)
    name_start = np.empty_like(value_end)
    name_start[:1] = 0
    name_start[1:] = value_end[:-1] + 1
    pairs_up_to_row = np.searchsorted(value_end, row_end)
    row = np.repeat(np.arange(len(row_end)), np.diff(pairs_up_to_row, prepend=0))
    if len(name_end) != len(value_end) or not (
        (name_start < name_end).all() and (name_end + 1 < value_end).all()
    ):
        # Some pair lacks a name, a value or a separator, or has two of them.
        first_separator = np.searchsorted(name_end, name_start)
        name_end = np.append(name_end, len(text))[first_separator]
        real = (name_start < name_end) & (name_end + 1 < value_end)
        row, name_start = row[real], name_start[real]
        name_end, value_end = name_end[real], value_end[real]
    return PropertyColumns(
        text,
        row_count=len(row_end),
        row=row,
        name_start=name_start,
        name_end=name_end,
        value_end=value_end,
    )


def _word_of(octets: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(octets, "little"))


def _is_sound(text: bytes, row_end: NDArray[np.int64], lengths: NDArray[np.int64]) -> bool:
    """Whether the text is UTF-8 and every row ends with a pair."""
    if text and not (np.frombuffer(text, np.uint8)[row_end[lengths > 0] - 1] == _VALUE_END).all():
        return False
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _made_sound(text: bytes, row_end: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """Close each row of the text and replace invalid UTF-8, which ArianeMQ producers never send."""
    rows: list[bytes] = []
    start = 0
    for end in row_end.tolist():
        row = str(text[start:end], "utf-8", "replace").encode()
        rows.append(row if row.endswith(b"\x02") else row + b"\x02")
        start = end
    return b"".join(rows), np.cumsum([len(row) for row in rows], dtype=np.int64)
